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
// Where bytes must be gathered: one chunk in so many, and so many bytes of it.
constexpr std::uint64_t gathered_of_chunks = 8;
constexpr std::int64_t most_gathered_bytes = std::int64_t{1} << 15;
// A device copies so many bytes at nearly its full speed.
constexpr std::int64_t device_chunk_bytes = std::int64_t{4} << 20;

Error changed(const std::string& key, const char* and_ = "") {
  return Error(Code::invalid_argument, cat("tensor '", key, "' has changed while it was saved"),
               cat("save_async with until = released leaves the state where it is", and_),
               "Call release() on the save's handle before the state is written again.")
      .of_tensor(key);
}

}  // namespace

Window::Chunks::Chunks(const Piece& piece) : piece_(&piece) {
  if (!piece.run) cut_ = plan::ChunkCut(piece.part, piece.element_bytes, piece.chunk_bytes);
}

std::uint64_t Window::Chunks::count() const {
  if (!piece_->run) return static_cast<std::uint64_t>(cut_.count());
  return static_cast<std::uint64_t>((piece_->bytes - 1) / piece_->chunk_bytes + 1);
}

std::optional<Window::Chunk> Window::Chunks::next() {
  if (offset_ == piece_->bytes) return std::nullopt;
  Chunk chunk;
  if (piece_->run) {
    chunk = {{}, offset_, std::min(piece_->chunk_bytes, piece_->bytes - offset_)};
  } else {
    auto found = cut_.chunk(number_++);
    chunk = {std::move(found.box), found.offset, found.bytes};
  }
  offset_ += chunk.bytes;
  return chunk;
}

void Window::add(Piece piece) {
  bytes_ += piece.bytes;
  const bool is_on_device = !piece.run && piece.memory->staging();
  piece.chunk_bytes = is_on_device ? device_chunk_bytes : cached_bytes;
  buffer_bytes_ = std::max(buffer_bytes_, std::min(piece.bytes, piece.chunk_bytes));
  chunks_in_all_ += Chunks(piece).count();
  pieces_.push_back(std::move(piece));
}

void Window::open(std::uint64_t round, Room buffer, TakeRoom take_room, bool protects) {
  round_ = round;
  buffer_ = std::move(buffer);
  protects_ = protects;
  if (protects) protect();
  std::uint64_t number = 0;
  for (const auto& piece : pieces_) take_sums(piece, number);
  const MutexLock guard(mutex_);
  take_room_ = std::move(take_room);
  is_open_ = !pieces_.empty();
}

// Of memory that must be gathered as many samples are read together as the buffer has room for.
void Window::take_sums(const Piece& piece, std::uint64_t& number) {
  std::vector<SliceMemory::Read> reads;
  std::size_t end = 0;
  const auto read = [&] {
    if (reads.empty()) return;
    piece.memory->read_all(reads);
    reads.push_back({{}, buffer_.bytes.data() + std::exchange(end, 0)});
    for (std::size_t i = 0; i + 1 < reads.size(); ++i) {
      sums_.push_back(crc32c({reads[i].out, reads[i + 1].out}));
    }
    reads.clear();
  };
  Chunks chunks(piece);
  while (const auto chunk = chunks.next()) {
    const auto sample = sample_of(piece, *chunk, number++);
    if (!sample) continue;
    if (piece.run) {
      const auto size = static_cast<std::size_t>(chunk->bytes);
      sums_.push_back(sum_of(piece, *chunk, *sample, {piece.run + chunk->offset, size}));
      continue;
    }
    if (end + sample->size > buffer_.bytes.size()) read();
    reads.push_back({sample->box, buffer_.bytes.data() + end});
    end += sample->size;
  }
  read();
}

void Window::clear() {
  pieces_.clear();
  sums_.clear();
  bytes_ = buffer_bytes_ = 0;
  chunks_in_all_ = 0;
  buffer_ = {};
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
    const auto& piece = pieces_[p];
    if (piece.run) ranges.push_back({piece.run, static_cast<std::size_t>(piece.bytes), p});
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

std::optional<Window::Sample> Window::sample_of(const Piece& piece, const Chunk& chunk,
                                                std::uint64_t number) const {
  const auto all = static_cast<std::size_t>(chunk.bytes);
  if (bytes_ <= all_sampled_bytes) return Sample{chunk.box, 0, all};
  const auto chosen = mixed_bits(number + mixed_bits(round_));
  const auto share = std::max(least_sample_bytes, chunk.bytes / sample_of_bytes);
  if (piece.run) {
    const auto size = static_cast<std::size_t>(std::min(chunk.bytes, share));
    return Sample{{}, chosen % (all - size + 1), size};
  }
  const auto group = number / gathered_of_chunks;
  const auto of_group = std::min(gathered_of_chunks, chunks_in_all_ - group * gathered_of_chunks);
  if (number % gathered_of_chunks != mixed_bits(group + mixed_bits(round_)) % of_group) {
    return std::nullopt;
  }
  const plan::ChunkCut parts(chunk.box, piece.element_bytes,
                             std::min(8 * share, most_gathered_bytes));
  const auto part =
      parts.chunk(static_cast<std::int64_t>(chosen % static_cast<std::uint64_t>(parts.count())));
  return Sample{part.box, static_cast<std::size_t>(part.offset),
                static_cast<std::size_t>(part.bytes)};
}

// The checksum of a sample and, where pages are protected, of the bytes of the chunk that lie on no
// whole page of the piece.
std::uint32_t Window::sum_of(const Piece& piece, const Chunk& chunk, const Sample& sample,
                             std::span<const std::byte> bytes) const {
  const auto sum = crc32c(bytes.subspan(sample.begin, sample.size));
  if (!protects_ || !piece.run) return sum;
  const auto begin = static_cast<std::size_t>(chunk.offset), end = begin + bytes.size();
  const auto all = static_cast<std::size_t>(piece.bytes);
  const auto edges = PageGuard::edges_of(piece.run, all);
  const auto front = std::clamp(edges.front, begin, end) - begin;
  const auto back = std::clamp(all - edges.back, begin, end) - begin;
  return crc32c(bytes.subspan(back), crc32c(bytes.first(front), sum));
}

// The next chunk of the present piece; nothing: the piece has no more.
std::optional<Window::Taken> Window::take_chunk() {
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
  if (is_copied_) {
    const auto begin = static_cast<std::size_t>(std::exchange(rest_at_, rest_at_ + chunk->bytes));
    return Taken{*chunk, rest_.bytes.subspan(begin, size), true};
  }
  const auto copy = buffer_.bytes.first(size);
  if (piece.run) {
    std::copy_n(piece.run + chunk->offset, size, copy.data());
  } else {
    piece.memory->read(chunk->box, copy.data());
  }
  return Taken{*chunk, copy, false};
}

void Window::write_next(const Take& take) {
  const auto& piece = pieces_.at(written_++);
  while (const auto taken = take_chunk()) {
    check(piece, *taken);
    take(taken->bytes, taken->stays);
  }
  check_guard();
}

// Compares the checksum of the next chunk's sample with the one that was taken at the call.
void Window::check(const Piece& piece, const Taken& taken) {
  const auto sample = sample_of(piece, taken.chunk, chunk_++);
  if (sample && sum_of(piece, taken.chunk, *sample, taken.bytes) != sums_.at(sum_++)) {
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
      std::vector<SliceMemory::Read> reads;
      auto chunks = chunks_.value();
      while (const auto chunk = chunks.next()) {
        reads.push_back({chunk->box, to + (chunk->offset - begin)});
      }
      piece.memory->read_all(reads);
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

// Whoever owns the memory may end before the save is committed, as Kokkos does.
void Window::close() {
  const MutexLock guard(mutex_);
  end_guard();
  is_open_ = false;
  for (auto& piece : pieces_) {
    piece.owner = nullptr;
    piece.memory = nullptr;
  }
  rest_.held = {};
  buffer_.held = {};
  closed_.notify_all();
}

double Window::held_seconds() const {
  const MutexLock guard(mutex_);
  return held_seconds_;
}

}  // namespace cairn
