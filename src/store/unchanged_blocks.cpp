#include "store/unchanged_blocks.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn {
namespace {

// Shorter pieces are copied even if they stay: a list of them would take more room.
constexpr std::size_t copied_below = 4096;
// So many blocks in a row are read back together.
constexpr std::int64_t read_together = 16;

// The blocks of a file that are written over must be those of the file as it will be.
std::int64_t block_bytes_of(const commit::PartFile& part, std::int64_t bytes) {
  if (part.held) return part.held->block_bytes;
  if (bytes == std::numeric_limits<std::int64_t>::max()) bytes = 0;
  return commit::KnownBlocks::block_bytes(bytes);
}

}  // namespace

std::unique_ptr<UnchangedBlocks> UnchangedBlocks::make(commit::PartFile& part, std::int64_t bytes,
                                                       Write write, Skip skip) {
  if (!part.known) return nullptr;
  const auto one_in = part.known->one_in(part.skip_unchanged, bytes);
  if (one_in == 0) return nullptr;
  if (part.held && bytes < std::numeric_limits<std::int64_t>::max() &&
      2 * part.held->block_bytes < commit::KnownBlocks::block_bytes(bytes)) {
    part.held.reset();  // the file has grown much
  }
  return std::make_unique<UnchangedBlocks>(part, bytes, one_in, std::move(write), std::move(skip));
}

UnchangedBlocks::UnchangedBlocks(commit::PartFile& part, std::int64_t bytes, std::int64_t one_in,
                                 Write write, Skip skip)
    : write_(std::move(write)),
      skip_(std::move(skip)),
      key_(&part.known->key()),
      one_in_(one_in),
      held_(part.held.value_or(commit::BlockHashes{})),
      read_every_(part.read_every),
      path_(part.path) {
  written_.hashes.block_bytes = block_bytes_of(part, bytes);
  written_.hashes.turn = held_.turn + 1;
  written_.hashes.chain = held_.chain;
  std::vector<io::Extent> due;
  const auto end = std::min(bytes, held_.file_bytes);
  const auto block_bytes = written_.hashes.block_bytes;
  for (std::int64_t block = 0; block * block_bytes < end; ++block) {
    const auto size = std::min(block_bytes, held_.file_bytes - block * block_bytes);
    if (is_due(block)) due.push_back({0, block * block_bytes, size, nullptr});
  }
  if (due.empty()) return;
  read_.resize(static_cast<std::size_t>(block_bytes));
  for (auto& extent : due) extent.to = read_.data();
  reader_ = part.read_back(std::move(due));
}

// Each block is due once in `read_every` turns of the file, and in each save about as many.
bool UnchangedBlocks::is_due(std::int64_t block) const {
  return read_every_ > 0 && held_.knows(block) && is_in_sample(block) &&
         (block / read_together) % read_every_ == held_.turn % read_every_;
}

// Tensors repeat at equal distances, so the blocks of a sample do not.
bool UnchangedBlocks::is_in_sample(std::int64_t block) const {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
  const auto mixed = static_cast<std::uint64_t>(block) * golden >> 32;
  return mixed % static_cast<std::uint64_t>(one_in_) == 0;
}

void UnchangedBlocks::begin_block() {
  const bool hashes = is_in_sample(number_);
  may_be_there_ = hashes && held_.knows(number_);
  if (hashes) hash_.emplace(*key_);
}

void UnchangedBlocks::put(std::span<const std::byte> bytes, bool stay, bool padding) {
  std::span<const std::byte> passing;  // blocks in a row that cannot be there: one write
  const auto pass_on = [&] {
    if (!passing.empty()) write_(std::exchange(passing, {}), stay);
  };
  while (!bytes.empty()) {
    if (filled_ == 0) begin_block();
    const auto room = static_cast<std::size_t>(written_.hashes.block_bytes - filled_);
    const auto piece = bytes.first(std::min(room, bytes.size()));
    if (hash_) hash_->add(piece);
    if (may_be_there_) {
      pass_on();
      keep(piece, stay);
    } else {
      passing = {passing.empty() ? piece.data() : passing.data(), passing.size() + piece.size()};
    }
    filled_ += static_cast<std::int64_t>(piece.size());
    if (!padding) counted_ += static_cast<std::int64_t>(piece.size());
    if (filled_ == written_.hashes.block_bytes) end_block();
    bytes = bytes.subspan(piece.size());
  }
  pass_on();
}

void UnchangedBlocks::keep(std::span<const std::byte> bytes, bool stay) {
  const bool copies = !stay || bytes.size() < copied_below;
  if (copies) {
    // Never more than a block, so that what lies there does not move.
    copies_.reserve(static_cast<std::size_t>(written_.hashes.block_bytes));
    copies_.insert(copies_.end(), bytes.begin(), bytes.end());
    bytes = std::span(copies_).last(bytes.size());
  }
  if (!kept_.empty() && kept_.back().stays == !copies &&
      kept_.back().bytes.data() + kept_.back().bytes.size() == bytes.data()) {
    auto& last = kept_.back().bytes;
    last = {last.data(), last.size() + bytes.size()};
  } else {
    kept_.push_back({bytes, !copies});
  }
}

void UnchangedBlocks::end_block() {
  KeyedHash::Digest digest = {};
  if (hash_) digest = hash_->end();
  bool is_there = may_be_there_ && digest == held_.digests[static_cast<std::size_t>(number_)];
  if (may_be_there_) {
    ++written_.compared;
    written_.equal += is_there;
    // A block that has changed is read, too, since the reader gives all that are due in turn.
    if (is_due(number_) && !holds(digest) && is_there) {
      is_there = false;
      tell_damage();
    }
  }
  if (is_there) {
    skip_(filled_);
    written_.unchanged_bytes += counted_;
  } else {
    for (const auto& piece : kept_) write_(piece.bytes, piece.stays);
  }
  written_.hashes.digests.push_back(digest);
  written_.hashes.file_bytes += filled_;
  ++number_;
  filled_ = counted_ = 0;
  hash_.reset();
  kept_.clear();
  copies_.clear();
}

// Whether the next block that is due has this hash on the disk.
bool UnchangedBlocks::holds(const KeyedHash::Digest& expected) {
  try {
    reader_->next();
  } catch (const Error&) {
    return false;
  }
  KeyedHash hash(*key_);
  hash.add(std::span(read_).first(static_cast<std::size_t>(filled_)));
  return hash.end() == expected;
}

void UnchangedBlocks::tell_damage() {
  if (std::exchange(is_damaged_, true)) return;
  log(LogLevel::warning,
      cat(path_.string(), " does not hold at byte ", number_ * written_.hashes.block_bytes,
          " what was written there: it is written anew"));
}

commit::WrittenBlocks UnchangedBlocks::end() {
  if (filled_ > 0) end_block();
  return std::move(written_);
}

}  // namespace cairn
