#include "io/direct_stream.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/text.hpp"

namespace cairn::io {
namespace {

// Requests from memory that stays are joined up to this size.
constexpr std::size_t largest_request = std::size_t{8} << 20;
// Shorter pieces are copied, even if they could be written from where they are.
constexpr std::size_t straight_from = std::size_t{64} << 10;

}  // namespace

std::unique_ptr<DirectStream> DirectStream::open(int buffered, const Path& path) {
  auto direct = open_direct(buffered, path, O_WRONLY | O_NOFOLLOW);
  if (!direct) return nullptr;
  struct stat status;
  if (::fstat(buffered, &status) != 0) return nullptr;
  auto ring = take_ring();
  if (!ring) return nullptr;
  // In a file with holes any write may need new space, so the file counts as empty.
  const bool whole = std::int64_t{status.st_blocks} * 512 >= status.st_size;
  std::unique_ptr<DirectStream> stream(new DirectStream(buffered, whole ? status.st_size : 0,
                                                        *std::move(direct), path, std::move(ring)));
  const MutexLock guard(stream->mutex_);
  stream->add_thread();
  if (stream->threads_.empty()) return nullptr;
  return stream;
}

DirectStream::DirectStream(int buffered, std::int64_t size, Descriptor direct, const Path& path,
                           Ring ring)
    : buffered_(buffered),
      old_size_(size),
      direct_(std::move(direct)),
      path_(path),
      ring_(std::move(ring)) {
  for (int slot = 0; slot < ring_slots; ++slot) free_.push_back(slot);
}

DirectStream::~DirectStream() {
  if (!threads_.empty()) {
    try {
      flush();
    } catch (...) {  // close() of the file reports errors
    }
    {
      const MutexLock guard(mutex_);
      stop_ = true;
    }
    work_to_do_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
}

// There are three cases. Bytes before the next page boundary go through the page cache. Many bytes
// in memory on page boundaries are written from where they are. The rest is copied into the slot,
// which is enqueued when it is full or when the row of writes ends.
void DirectStream::write(std::int64_t offset, std::span<const std::byte> bytes, bool stay) {
  if (offset != next_) {
    end_row();
    next_ = offset;
  }
  wait_for(offset, offset + static_cast<std::int64_t>(bytes.size()));
  while (!bytes.empty()) {
    std::size_t count = 0;
    if (slot_ < 0 && !on_page(next_)) {
      count = std::min(bytes.size(), page - static_cast<std::size_t>(next_) % page);
      put_buffered(next_, bytes.first(count));
    } else if (filled_ % page == 0 && bytes.size() >= straight_from && on_page(bytes.data())) {
      // The slot holds whole pages that come just before these bytes.
      const auto end = next_ + static_cast<std::int64_t>(bytes.size());
      end_row();
      // next_ is on a page boundary here, so these are whole pages. end_row() has cleared next_.
      count = bytes.size() - static_cast<std::size_t>(end) % page;
      next_ = end - static_cast<std::int64_t>(bytes.size());
      if (stay) {
        enqueue({next_, bytes.data(), count, -1});
      } else {
        put({next_, bytes.data(), count, -1});
      }
    } else {
      if (slot_ < 0) take_slot();
      count = std::min(bytes.size(), slot_bytes - filled_);
      std::memcpy(ring_.get() + static_cast<std::size_t>(slot_) * slot_bytes + filled_,
                  bytes.data(), count);
      filled_ += count;
    }
    next_ += static_cast<std::int64_t>(count);
    bytes = bytes.subspan(count);
    if (slot_ >= 0 && filled_ == slot_bytes) {
      // The row goes on, in the next slot.
      const auto next = next_;
      end_row();
      next_ = next;
    }
  }
}

void DirectStream::take_slot() {
  MutexLock guard(mutex_);
  // After an error slots become free, too: the threads then drop their requests.
  while (free_.empty()) guard.wait(work_done_);
  if (error_) std::rethrow_exception(error_);
  slot_ = free_.back();
  free_.pop_back();
  slot_offset_ = next_;
  filled_ = 0;
}

// Enqueues the whole pages in the slot. Writes a last, incomplete page at once.
void DirectStream::end_row() {
  next_ = -1;
  if (slot_ < 0) return;
  const auto* begin = ring_.get() + static_cast<std::size_t>(slot_) * slot_bytes;
  const auto whole = filled_ / page * page;
  const auto rest = std::span(begin + whole, filled_ - whole);
  const auto slot = std::exchange(slot_, -1);
  const auto offset = slot_offset_;
  filled_ = 0;
  if (whole > 0) {
    enqueue({offset, begin, whole, slot});
  } else {  // only the caller takes slots, so the bytes stay there
    const MutexLock guard(mutex_);
    free_.push_back(slot);
  }
  if (!rest.empty()) put_buffered(offset + static_cast<std::int64_t>(whole), rest);
}

// Waits until no request for these bytes is under way: the last write of a byte counts.
void DirectStream::wait_for(std::int64_t begin, std::int64_t end) {
  // Nothing was enqueued here: the usual case, as writes ascend.
  if (begin >= furthest_) return;
  MutexLock guard(mutex_);
  const auto meets = [&](const Request& one) { return one.meets(begin, end); };
  while (std::ranges::any_of(flying_, meets) || std::ranges::any_of(queue_, meets)) {
    guard.wait(work_done_);
  }
}

void DirectStream::enqueue(const Request& request) {
  furthest_ = std::max(furthest_, request.end());
  {
    const MutexLock guard(mutex_);
    if (error_) {
      if (request.slot >= 0) free_.push_back(request.slot);
      std::rethrow_exception(error_);
    }
    auto* last = queue_.empty() ? nullptr : &queue_.back();
    if (last && last->slot < 0 && request.slot < 0 && last->bytes + last->size == request.bytes &&
        last->end() == request.offset && last->size + request.size <= largest_request) {
      last->size += request.size;
      return;
    }
    queue_.push_back(request);
    // A thread is started only when it would begin this request at once.
    if (idle_ == 0 && threads_.size() < flying_.size() && may_fly(request)) add_thread();
  }
  work_to_do_.notify_one();
}

void DirectStream::flush() {
  std::exception_ptr error;
  try {
    end_row();
  } catch (...) {
    error = std::current_exception();
  }
  MutexLock guard(mutex_);
  while (!queue_.empty() || !std::ranges::all_of(flying_, &Request::empty)) guard.wait(work_done_);
  if (!error_) error_ = error;
  if (error_) std::rethrow_exception(error_);
}

// If no more threads can be started, those that run do the work.
void DirectStream::add_thread() {
  try {
    threads_.emplace_back([this, &flying = flying_[threads_.size()]] { work(flying); });
  } catch (const std::system_error&) {
  }
}

// Writes that make the file longer go one by one: during such a write the file system lets no other
// write in, and it lays a file out in the order in which it grows. To reserve the space beforehand
// makes these writes slower.
bool DirectStream::may_fly(const Request& request) const {
  const auto grows = [&](const Request& one) { return one.end() > old_size_; };
  return !grows(request) || std::ranges::none_of(flying_, grows);
}

// The first request that may begin: one that makes the file longer may have to wait, and later ones
// that overwrite go before it.
DirectStream::Queue::iterator DirectStream::next_request() {
  return std::ranges::find_if(
      queue_, [&](const Request& one) CAIRN_REQUIRES(mutex_) { return may_fly(one); });
}

void DirectStream::work(Request& flying) {
  MutexLock guard(mutex_);
  for (;;) {
    auto next = next_request();
    ++idle_;
    for (; next == queue_.end() && !stop_; next = next_request()) guard.wait(work_to_do_);
    --idle_;
    if (next == queue_.end()) return;
    flying = *next;
    queue_.erase(next);
    // After an error all other requests are dropped, so that nobody waits for them.
    if (!error_) {
      guard.unlock();
      std::exception_ptr error;
      try {
        put(flying);
      } catch (...) {
        error = std::current_exception();
      }
      guard.lock();
      if (error && !error_) error_ = error;
    }
    if (flying.slot >= 0) free_.push_back(flying.slot);
    flying = {};
    work_done_.notify_all();
  }
}

void DirectStream::put(const Request& request) {
  const NoFileSizeSignal no_signal;
  auto offset = request.offset;
  auto rest = std::span(request.bytes, request.size);
  while (!rest.empty()) {
    // After a call that wrote only a part, the rest may not be aligned.
    const bool aligned =
        on_page(offset) && on_page(rest.data()) && rest.size() % page == 0 && direct_works_;
    if (!aligned) return put_buffered(offset, rest);
    const auto count = std::min(rest.size(), largest_call);
    const auto done =
        retried([&] { return ::pwrite(direct_.get(), rest.data(), count, off_t{offset}); });
    if (done < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
      // The rest goes through the page cache, and so do all later requests for this file.
      refuse_direct(buffered_);
      direct_works_ = false;
    } else if (done <= 0) {
      throw system_error(done < 0 ? errno : EIO, cat("write ", count, " bytes at offset ", offset),
                         path_);
    } else {
      offset += done;
      rest = rest.subspan(static_cast<std::size_t>(done));
    }
  }
}

void DirectStream::put_buffered(std::int64_t offset, std::span<const std::byte> bytes) {
  const NoFileSizeSignal no_signal;
  const auto begin = offset;
  while (!bytes.empty()) {
    const auto count = std::min(bytes.size(), largest_call);
    const auto done =
        retried([&] { return ::pwrite(buffered_, bytes.data(), count, off_t{offset}); });
    if (done <= 0) {
      throw system_error(done < 0 ? errno : EIO, cat("write ", count, " bytes at offset ", offset),
                         path_);
    }
    offset += done;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  if (offset - begin >= static_cast<std::int64_t>(page)) start_write_back(buffered_, begin, offset);
}

}  // namespace cairn::io
