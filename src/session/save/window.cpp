#include "session/save/window.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "base/checksum.hpp"
#include "base/copy.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "layout/offsets.hpp"
#include "session/save/save_log.hpp"

namespace cairn {
namespace {

// Up to so many bytes all of them are sampled, otherwise one in so many, and at least so many of a
// chunk.
constexpr std::int64_t all_sampled_bytes = std::int64_t{1} << 20, sample_of_bytes = 128,
                       least_sample_bytes = 64;

Error changed(const std::string& key, const char* and_ = "") {
  return Error(Code::invalid_argument, cat("tensor '", key, "' has changed while it was saved"),
               cat("save_async with until = released leaves the state where it is", and_),
               "Call release() on the save's handle before the state is written again.")
      .of_tensor(key);
}

}  // namespace

Window::Chunks::Chunks(const Piece& piece) : piece_(&piece) {
  if (!piece.run) cut_ = plan::ChunkCut(piece.part, piece.element_bytes, cached_bytes);
}

std::optional<Window::Chunk> Window::Chunks::next() {
  if (offset_ == piece_->bytes) return std::nullopt;
  Chunk chunk;
  if (piece_->run) {
    chunk = {{}, offset_, std::min(cached_bytes, piece_->bytes - offset_)};
  } else {
    auto found = cut_.chunk(number_++);
    chunk = {std::move(found.box), found.offset, found.bytes};
  }
  offset_ += chunk.bytes;
  return chunk;
}

void Window::add(Piece piece) {
  bytes_ += piece.bytes;
  pieces_.push_back(std::move(piece));
}

void Window::open(std::uint64_t round, TakeRoom take_room, bool protects) {
  round_ = round;
  if (protects) protect();
  std::vector<std::byte> buffer;
  std::uint64_t number = 0;
  for (const auto& piece : pieces_) {
    Chunks chunks(piece);
    while (const auto chunk = chunks.next()) {
      const auto sample = sample_of(piece, *chunk, number++);
      if (!sample) continue;
      const auto* bytes = bytes_of(piece, *chunk, buffer);
      sums_.push_back(crc32c({bytes + sample->begin, sample->size}));
    }
  }
  const MutexLock guard(mutex_);
  take_room_ = std::move(take_room);
  is_open_ = !pieces_.empty();
}

void Window::clear() {
  pieces_.clear();
  sums_.clear();
  bytes_ = 0;
  written_ = chunk_ = sum_ = 0;
  const MutexLock guard(mutex_);
  is_open_ = is_copied_ = false;
  take_room_ = nullptr;
  next_ = 0;
  chunks_.reset();
  taken_ = rest_at_ = 0;
  rest_ = {};
  held_seconds_ = 0;
  guard_.reset();
  broken_.reset();
}

// Of memory that is not contiguous the parts in between are no part of the state.
void Window::protect() {
  std::vector<PageGuard::Range> ranges;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const auto& [key, owner, run, memory, part, bytes, element_bytes] = pieces_[p];
    if (run) ranges.push_back({run, static_cast<std::size_t>(bytes), p});
  }
  const char* way = std::getenv("CAIRN_CHECK_PROMISE");
  std::unique_ptr<PageGuard> guard;
  if (!way || std::string_view(way) != "mprotect") {
    guard = PageGuard::make(ranges, PageGuard::Way::userfaultfd);
  }
  const bool refuses_calls = !guard;
  if (!guard) guard = PageGuard::make(ranges, PageGuard::Way::mprotect);
  const MutexLock lock(mutex_);
  guard_ = std::move(guard);
  refuses_calls_ = refuses_calls;
}

void Window::end_guard() {
  if (guard_ && !broken_) broken_ = guard_->written();
  guard_.reset();
}

void Window::check_guard() const {
  const MutexLock lock(mutex_);
  if (!broken_) return;
  throw changed(pieces_[*broken_].key,
                refuses_calls_ ? "; system calls that write into it fail with EFAULT" : "");
}

// Of memory that is not contiguous whole chunks are sampled, since their bytes are gathered.
std::optional<Window::Sample> Window::sample_of(const Piece& piece, const Chunk& chunk,
                                                std::uint64_t number) const {
  const auto all = static_cast<std::size_t>(chunk.bytes);
  if (bytes_ <= all_sampled_bytes) return Sample{0, all};
  const auto chosen = mixed_bits(number + mixed_bits(round_));
  if (!piece.run) {
    if (chosen % sample_of_bytes != 0) return std::nullopt;
    return Sample{0, all};
  }
  const auto size = static_cast<std::size_t>(
      std::min(chunk.bytes, std::max(least_sample_bytes, chunk.bytes / sample_of_bytes)));
  return Sample{chosen % (all - size + 1), size};
}

const std::byte* Window::bytes_of(const Piece& piece, const Chunk& chunk,
                                  std::vector<std::byte>& buffer) {
  if (piece.run) return piece.run + chunk.offset;
  buffer.resize(static_cast<std::size_t>(chunk.bytes));
  piece.memory->read(chunk.box, buffer.data());
  return buffer.data();
}

// The next chunk of the present piece; nothing: the piece has no more. `stays`: it lies in the copy
// of the rest.
std::optional<std::span<const std::byte>> Window::take_chunk(std::vector<std::byte>& buffer,
                                                             bool& stays) {
  const MutexLock guard(mutex_);
  const auto& piece = pieces_.at(next_);
  if (!chunks_) chunks_.emplace(piece);
  const auto chunk = chunks_->next();
  if (!chunk) {
    chunks_.reset();
    taken_ = 0;
    rest_at_ = next_page(rest_at_);
    if (++next_ == pieces_.size()) {
      end_guard();
      is_open_ = false;
      closed_.notify_all();
    }
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>(chunk->bytes);
  taken_ += chunk->bytes;
  stays = is_copied_;
  if (is_copied_) {
    const auto begin = static_cast<std::size_t>(std::exchange(rest_at_, rest_at_ + chunk->bytes));
    return rest_.bytes.subspan(begin, size);
  }
  buffer.resize(size);
  if (piece.run) {
    std::copy_n(piece.run + chunk->offset, size, buffer.data());
  } else {
    piece.memory->read(chunk->box, buffer.data());
  }
  return buffer;
}

void Window::write_next(const Take& take, std::vector<std::byte>& buffer) {
  const auto& piece = pieces_.at(written_++);
  bool stays = false;
  while (const auto chunk = take_chunk(buffer, stays)) {
    check(piece, *chunk);
    take(*chunk, stays);
  }
  check_guard();
}

// Compares the checksum of the next chunk's sample with the one that was taken at the call.
void Window::check(const Piece& piece, std::span<const std::byte> chunk) {
  const auto sample = sample_of(piece, {{}, 0, static_cast<std::int64_t>(chunk.size())}, chunk_++);
  if (sample && crc32c(chunk.subspan(sample->begin, sample->size)) != sums_.at(sum_++)) {
    throw changed(piece.key);
  }
}

// Copies what the writing thread has not taken. Returns false without memory for it.
bool Window::copy_rest() {
  const auto rest_of = [&](std::size_t p) CAIRN_REQUIRES(mutex_) {
    return pieces_[p].bytes - (p == next_ ? taken_ : 0);
  };
  std::int64_t bytes = 0;
  for (auto p = next_; p < pieces_.size(); ++p) bytes = next_page(bytes) + rest_of(p);
  auto room = take_room_(bytes);
  if (std::ssize(room.bytes) < bytes) return false;
  std::int64_t end = 0;
  for (auto p = next_; p < pieces_.size(); ++p) {
    const auto& piece = pieces_[p];
    const auto rest = rest_of(p), begin = piece.bytes - rest;
    auto* to = room.bytes.data() + next_page(end);
    end = next_page(end) + rest;
    if (rest == 0) continue;
    if (piece.run) {
      copy_past_caches(to, piece.run + begin, static_cast<std::size_t>(rest));
    } else if (begin == 0) {
      piece.memory->read(piece.part, to);
    } else {
      auto chunks = chunks_.value();
      while (const auto chunk = chunks.next()) {
        piece.memory->read(chunk->box, to + (chunk->offset - begin));
      }
    }
  }
  rest_ = std::move(room);
  rest_at_ = 0;
  is_copied_ = true;
  return true;
}

void Window::release() {
  const auto begin = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  if (!is_open_ || is_copied_) return;
  std::string why = "there is not so much memory";
  try {
    if (copy_rest()) why.clear();
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!why.empty()) {
    lock.unlock();
    log(LogLevel::warning, cat("release() waits until the state is written: ", why));
    lock.lock();
    while (is_open_) lock.wait(closed_);
  }
  end_guard();
  held_seconds_ += seconds_since(begin);
}

void Window::close() {
  const MutexLock guard(mutex_);
  end_guard();
  is_open_ = false;
  rest_.held = {};
  closed_.notify_all();
}

double Window::held_seconds() const {
  const MutexLock guard(mutex_);
  return held_seconds_;
}

}  // namespace cairn
