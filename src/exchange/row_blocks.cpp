#include "exchange/row_blocks.hpp"

#include <algorithm>
#include <vector>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "cairn/background.hpp"
#include "cairn/error.hpp"

namespace cairn {

// Shared with the memory that is lent: it may come back after the RowBlocks is gone.
struct RowBlocks::Spares {
  struct Piece {
    std::byte* begin;
    std::size_t bytes;
    bool is_lent, was_taken;  // was_taken: since let_go_unused()
  };
  const std::shared_ptr<StagingMemory> pages = page_memory();
  Mutex mutex;
  bool keeps CAIRN_GUARDED_BY(mutex);  // keeps memory that comes back
  std::vector<Piece> pieces CAIRN_GUARDED_BY(mutex);

  explicit Spares(bool keeps_them) : keeps(keeps_them) {}
  ~Spares() {
    for (const auto& one : pieces) pages->give_back(one.begin, one.bytes);
  }
  std::byte* lend(std::size_t bytes);
  void come_back(const std::byte* begin);
  // Gives free pieces back to the system: all of them, or those not taken since let_go_unused().
  void drop(bool all) CAIRN_REQUIRES(mutex);
};

// Lends the smallest free piece that is large enough and not much too large, or else a new one.
std::byte* RowBlocks::Spares::lend(std::size_t bytes) {
  const MutexLock lock(mutex);
  Piece* best = nullptr;
  for (auto& one : pieces) {
    if (one.is_lent || one.bytes < bytes || one.bytes / 2 > bytes) continue;
    if (!best || one.bytes < best->bytes) best = &one;
  }
  if (!best) {
    // With this room a few more rows fit the next time. Pages that nobody touches take no memory.
    const auto whole = bytes + bytes / 16;
    pieces.reserve(pieces.size() + 1);
    auto* begin = pages->take(whole);
    if (!begin) return nullptr;
    best = &pieces.emplace_back(Piece{begin, whole, false, false});
  }
  best->is_lent = best->was_taken = true;
  return best->begin;
}

void RowBlocks::Spares::come_back(const std::byte* begin) {
  const MutexLock lock(mutex);
  for (auto& one : pieces) {
    if (one.begin == begin) one.is_lent = false;
  }
  if (!keeps) drop(true);
}

void RowBlocks::Spares::drop(bool all) {
  std::erase_if(pieces, [&](const Piece& one) {
    if (one.is_lent || (one.was_taken && !all)) return false;
    pages->give_back(one.begin, one.bytes);
    return true;
  });
}

RowBlocks::RowBlocks(bool keeps) : spares_(std::make_shared<Spares>(keeps)) {}

RowBlocks::~RowBlocks() {
  const MutexLock lock(spares_->mutex);
  // What is still lent is then freed when it comes back.
  spares_->keeps = false;
  spares_->drop(true);
}

std::shared_ptr<std::byte> RowBlocks::take(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  auto* begin = spares_->lend(static_cast<std::size_t>(bytes));
  if (!begin) {
    throw Error(
        Code::no_space,
        cat("there is no memory for ", bytes_text(static_cast<double>(bytes)), " of indexed rows"),
        "each rank takes its share of them in the order of their ids");
  }
  return {begin, [spares = spares_](std::byte* memory) { spares->come_back(memory); }};
}

void RowBlocks::let_go_unused() {
  const MutexLock lock(spares_->mutex);
  spares_->drop(false);
  for (auto& one : spares_->pieces) one.was_taken = one.is_lent;
}

}  // namespace cairn
