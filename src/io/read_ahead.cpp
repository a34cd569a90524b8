#include "io/read_ahead.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <system_error>

#include "base/checksum.hpp"
#include "base/copy.hpp"
#include "io/direct_io.hpp"

namespace cairn::io {
namespace {

constexpr auto page_bytes = static_cast<std::int64_t>(page);
// Half a slot: beside a state a reader takes 8 MiB.
constexpr auto block_bytes = static_cast<std::int64_t>(slot_bytes / 2);
// The fewest bytes that are read straight into place, and the most of one such block.
constexpr std::int64_t read_straight_from = std::int64_t{256} << 10;
constexpr std::int64_t straight_bytes = std::int64_t{8} << 20;
// Up to this many unwanted bytes between two extents are read rather than passed over.
constexpr std::int64_t largest_gap = std::int64_t{64} << 10;
// The most blocks that are being fetched, or fetched and not yet used.
constexpr std::size_t window = 8;
// For fewer bytes threads cost more than they give.
constexpr std::int64_t least_bytes = std::int64_t{1} << 20;
// Threads, each with one request under way. While the disk works on some, threads that wait for a
// processor do not leave it idle. On a busy machine, with checksums and a copy beside them, six
// threads and eight blocks reached 0.90 to 0.98 of the raw speed, two threads and four blocks of
// twice the size 0.82 to 0.91. Eight of those reached 0.99 to 1.05, with twice the memory.
constexpr std::size_t readers = 6;
// Checksum and copy take pieces of this size, so that the bytes are in the cache for the copy.
constexpr std::int64_t bytes_in_cache = std::int64_t{1} << 17;

constexpr std::int64_t down(std::int64_t offset) { return offset / page_bytes * page_bytes; }
constexpr std::int64_t up(std::int64_t offset) { return down(offset + page_bytes - 1); }

enum class Cached { all, most, less };

Cached part_of(std::size_t cached, std::size_t pages) {
  if (cached >= pages) return Cached::all;
  return cached >= pages - pages / 4 ? Cached::most : Cached::less;
}

// How many pages of a range are in the page cache, by cachestat() of Linux 6.5. Nothing if the
// kernel does not tell. Older headers do not know the call, which is the same on all processors.
std::optional<std::size_t> count_cached([[maybe_unused]] int descriptor,
                                        [[maybe_unused]] std::int64_t begin,
                                        [[maybe_unused]] std::int64_t bytes) {
#ifdef __linux__
  constexpr long cachestat = 451;
  const std::uint64_t range[2] = {static_cast<std::uint64_t>(begin),
                                  static_cast<std::uint64_t>(bytes)};
  std::uint64_t counts[5] = {};  // cached, dirty, in write-back, evicted, recently evicted
  if (::syscall(cachestat, descriptor, range, counts, 0) == 0) return counts[0];
#endif
  return std::nullopt;
}

// How many of these bytes are in the page cache. mincore() takes forty times as long as
// cachestat(), and says "all" if the process may not know.
Cached cached_part(int descriptor, std::int64_t begin, std::int64_t end) {
  const auto first = down(begin);
  const auto size = static_cast<std::size_t>(end - first);
  const auto all = (size + page - 1) / page;
  if (const auto count = count_cached(descriptor, first, end - first)) return part_of(*count, all);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, off_t{first});
  if (mapped == MAP_FAILED) return Cached::less;
  std::vector<unsigned char> pages(all);
  const bool told = ::mincore(mapped, size, pages.data()) == 0;
  ::munmap(mapped, size);
  if (!told) return Cached::less;
  const auto count = std::count_if(pages.begin(), pages.end(), [](auto one) { return one & 1; });
  return part_of(static_cast<std::size_t>(count), all);
}

// Lets the system read these bytes meanwhile. A hint: its result does not matter.
void begin_reading([[maybe_unused]] int descriptor, [[maybe_unused]] std::int64_t begin,
                   [[maybe_unused]] std::int64_t end) {
#ifdef POSIX_FADV_WILLNEED
  ::posix_fadvise(descriptor, off_t{begin}, off_t{end - begin}, POSIX_FADV_WILLNEED);
#endif
}

}  // namespace

std::unique_ptr<Reader> ReadAhead::make(Open open, std::vector<Path> files,
                                        std::vector<Extent> extents, DirectIo mode) {
  std::int64_t bytes = 0;
  for (const auto& extent : extents) bytes += extent.bytes;
  if (bytes < (mode == DirectIo::on ? page_bytes : least_bytes)) return nullptr;
  std::unique_ptr<ReadAhead> made(
      new ReadAhead(std::move(open), std::move(files), std::move(extents), mode));
  try {
    const auto most = std::min(readers, made->blocks_.size());
    while (made->threads_.size() < most) {
      made->threads_.emplace_back([self = made.get()] { self->work(); });
    }
  } catch (const std::system_error&) {
    if (made->threads_.empty()) return nullptr;
  }
  return made;
}

ReadAhead::ReadAhead(Open open, std::vector<Path> files, std::vector<Extent> extents, DirectIo mode)
    : open_(std::move(open)),
      paths_(std::move(files)),
      extents_(std::move(extents)),
      mode_(mode),
      sources_(paths_.size()) {
  for (int slot = ring_slots; slot-- > 0;) free_.push_back(slot);
  cut();
  if (mode_ != DirectIo::off) ring_ = take_ring();
}

ReadAhead::~ReadAhead() {
  {
    const MutexLock guard(mutex_);
    stop_ = true;
  }
  may_fetch_.notify_all();
  for (auto& thread : threads_) thread.join();
}

// Whether an extent that begins here can share the last block. A block is fetched in whole pages,
// so the slot's first byte is that of the block's first page.
bool ReadAhead::joins(const Extent& extent, std::int64_t begin) const {
  if (blocks_.empty()) return false;
  const auto& last = blocks_.back();
  return !last.place && last.file == static_cast<std::size_t>(extent.file) && begin >= last.end &&
         begin - last.end <= largest_gap && begin < down(last.begin) + block_bytes;
}

void ReadAhead::add(const Extent& extent, std::int64_t begin, std::int64_t end, std::byte* place) {
  const auto file = static_cast<std::size_t>(extent.file);
  blocks_.push_back({file, begin, end, place});
  ++sources_[file].blocks_left;
}

// Cuts the extents into blocks, in the order of the extents. The end of one extent and the
// beginning of the next may share a block, so that small extents do not cost a request each.
void ReadAhead::cut() {
  for (const auto& extent : extents_) {
    auto at = extent.offset;
    const auto end = at + extent.bytes;
    // Reads straight into place where pages of the file are pages of the memory. Only on demand:
    // into small pages direct reads were measured to be half as fast as into huge ones.
    auto straight = end, straight_end = end;
    if (mode_ == DirectIo::on && extent.early && extent.to && on_page(extent.to + (up(at) - at)) &&
        down(end) - up(at) >= read_straight_from) {
      straight = up(at), straight_end = down(end);
    }
    const auto into_slots = [&](std::int64_t until) {
      while (at < until) {
        if (!joins(extent, at)) add(extent, at, at, nullptr);
        auto& block = blocks_.back();
        block.end = at = std::min(until, down(block.begin) + block_bytes);
      }
    };
    const auto before = blocks_.size();
    const bool joined = at < straight && joins(extent, at);
    first_block_.push_back(joined ? before - 1 : before);
    into_slots(straight);
    while (at < straight_end) {
      const auto block_end = std::min(straight_end, at + straight_bytes);
      add(extent, at, block_end, extent.to + (at - extent.offset));
      at = block_end;
    }
    into_slots(end);
  }
}

// Functions of the reading threads.

// Whether the next block may be fetched now: the caller is not too far behind, and there is a slot
// if the block needs one. Without a ring it needs none, and the system is only told to read.
bool ReadAhead::may_begin() const {
  if (fetching_ >= blocks_.size() || fetching_ >= current_ + window) return false;
  return blocks_[fetching_].place || !ring_ || !free_.empty();
}

// What each thread does: it fetches blocks in their order, none of which another thread has taken.
void ReadAhead::work() {
  MutexLock guard(mutex_);
  for (;;) {
    while (!stop_ && fetching_ < blocks_.size() && !may_begin()) guard.wait(may_fetch_);
    if (stop_ || fetching_ == blocks_.size()) return;
    fetch_next(guard);
  }
}

// Fetches the next block, which may be fetched now, without the mutex.
void ReadAhead::fetch_next(MutexLock& guard) {
  // blocks_ does not change after cut(), so the reference stays valid without the mutex.
  auto& block = blocks_[fetching_++];
  std::byte* slot = nullptr;
  if (!block.place && ring_) {
    block.slot = free_.back();
    free_.pop_back();
    slot = ring_.get() + block.slot * block_bytes;
  }
  bool fetched = false;
  guard.without([&] { fetched = fetch(block, slot); });
  block.done = true;
  block.fetched = fetched;
  // The caller will read these bytes by itself, so another block may use the slot.
  if (!fetched && block.slot >= 0) {
    free_.push_back(std::exchange(block.slot, -1));
    may_fetch_.notify_one();
  }
  fetched_.notify_one();
}

ReadAhead::Source& ReadAhead::open(std::size_t file) {
  auto& source = sources_[file];
  const MutexLock guard(source.mutex);
  if (source.error) std::rethrow_exception(source.error);
  if (!source.opened) {
    try {
      source.opened = open_(paths_[file]);
    } catch (...) {
      source.error = std::current_exception();
      throw;
    }
    if (mode_ != DirectIo::off) {
      auto direct = open_direct(source.opened->descriptor, paths_[file], O_RDONLY | O_NONBLOCK);
      if (direct) source.direct.emplace(*std::move(direct));
    }
  }
  return source;
}

// If false, the caller reads the block when its turn comes, and gets the error.
bool ReadAhead::fetch(const Block& block, std::byte* slot) {
  try {
    auto& source = open(block.file);
    const auto descriptor = source.opened->descriptor;
    const auto cached =
        mode_ == DirectIo::on ? Cached::less : cached_part(descriptor, block.begin, block.end);
    if (cached == Cached::less && fetch_direct(source, block, slot)) return true;
    // For bytes that are there it would take two fifths of the time of their copy.
    if (cached != Cached::all) begin_reading(descriptor, block.begin, block.end);
  } catch (...) {  // the caller will get the error as well
  }
  return false;
}

bool ReadAhead::fetch_direct(Source& source, const Block& block, std::byte* slot) {
  auto* to = block.place ? block.place : slot;
  if (!source.direct || !to) return false;
  // Reads the whole pages around the block. The file may end within the last one.
  const auto begin = down(block.begin), end = up(block.end);
  for (auto at = begin; at < block.end;) {
    const auto done = retried([&] {
      return ::pread(source.direct->get(), to + (at - begin), static_cast<std::size_t>(end - at),
                     off_t{at});
    });
    if (done < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
      refuse_direct(source.opened->descriptor);
    }
    if (done <= 0) return false;
    at += done;
    // The next direct read would not begin on a page boundary. The plain read does the rest.
    if (at < block.end && !on_page(at)) return false;
  }
  return true;
}

// Functions of the caller's thread.

std::uint32_t ReadAhead::next() {
  const auto number = turn_++;
  const auto& extent = extents_[number];
  // After an error, blocks of the extent before may be left.
  finish_blocks(first_block_[number]);
  std::uint32_t crc = 0;
  const auto end = extent.offset + extent.bytes;
  for (auto at = extent.offset; at < end;) {
    const auto& block = wait_for_block();
    const auto part_end = std::min(end, block.end);
    auto* to = extent.to ? extent.to + (at - extent.offset) : nullptr;
    crc = take(block, at, part_end, to, crc);
    at = part_end;
    if (at == block.end) finish_blocks(current_ + 1);
  }
  return crc;
}

// If no thread has come to the block, the caller fetches it: it would wait for a thread that waits
// for a processor. All slots are free then.
const ReadAhead::Block& ReadAhead::wait_for_block() {
  MutexLock guard(mutex_);
  auto& block = blocks_[current_];
  if (fetching_ == current_) fetch_next(guard);
  while (!block.done) guard.wait(fetched_);
  return block;
}

// Ends the use of all blocks before `end`: none of them is asked for again.
void ReadAhead::finish_blocks(std::size_t end) {
  if (current_ >= end) return;
  MutexLock guard(mutex_);
  for (; current_ < end; ++current_) {
    auto& block = blocks_[current_];
    // A thread may still be writing into its slot or place.
    while (!block.done) guard.wait(fetched_);
    if (block.slot >= 0) free_.push_back(std::exchange(block.slot, -1));
    may_fetch_.notify_one();  // one block more may begin
    auto& source = sources_[block.file];
    // The file is closed when its last block is used, so few files are open at a time.
    if (--source.blocks_left == 0) {
      source.opened.reset();
      source.direct.reset();
    }
  }
}

// Checksums this part of a block and copies it to its place, or reads it now if no thread has
// fetched it. Then errors of opening and reading reach the caller.
std::uint32_t ReadAhead::take(const Block& block, std::int64_t begin, std::int64_t end,
                              std::byte* to, std::uint32_t crc) {
  if (!block.fetched) return read_(*open(block.file).opened->file, begin, end - begin, to, crc);
  const auto* from = block.place
                         ? block.place + (begin - block.begin)
                         : ring_.get() + block.slot * block_bytes + (begin - down(block.begin));
  for (std::int64_t at = 0; at < end - begin; at += bytes_in_cache) {
    const auto size = static_cast<std::size_t>(std::min(bytes_in_cache, end - begin - at));
    crc = crc32c(std::span(from + at, size), crc);
    if (to && !block.place) copy_past_caches(to + at, from + at, size);
  }
  return crc;
}

}  // namespace cairn::io
