#include "io/direct_stream.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/text.hpp"

namespace cairn::io {
namespace {

// Memory that stays is handed on in larger pieces.
constexpr std::size_t largest_request = std::size_t{8} << 20;
// Below this, pages are copied even if they could be written from where they are.
constexpr std::size_t straight_from = std::size_t{64} << 10;

}  // namespace

std::unique_ptr<DirectStream> DirectStream::open(int buffered, const Path& path) {
  auto direct = open_direct(buffered, path, O_WRONLY | O_NOFOLLOW);
  if (!direct) return nullptr;
  auto* ring = take_ring();
  if (!ring) return nullptr;
  std::unique_ptr<DirectStream> stream(new DirectStream(buffered, *std::move(direct), path, ring));
  try {
    stream->thread_ = std::thread([self = stream.get()] { self->work(); });
  } catch (const std::system_error&) {
    return nullptr;
  }
  return stream;
}

DirectStream::DirectStream(int buffered, Descriptor direct, const Path& path, std::byte* ring)
    : buffered_(buffered), direct_(std::move(direct)), path_(path), ring_(ring) {
  for (int slot = 0; slot < slots; ++slot) free_.push_back(slot);
}

DirectStream::~DirectStream() {
  if (thread_.joinable()) {
    try {
      flush();
    } catch (...) {  // close() would have told
    }
    {
      const std::lock_guard guard(mutex_);
      stop_ = true;
    }
    work_to_do_.notify_all();
    thread_.join();
  }
  give_ring(ring_);
}

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
      // What is in the slot are whole pages before these.
      const auto end = next_ + static_cast<std::int64_t>(bytes.size());
      end_row();
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
      std::memcpy(ring_ + static_cast<std::size_t>(slot_) * slot_bytes + filled_, bytes.data(),
                  count);
      filled_ += count;
    }
    next_ += static_cast<std::int64_t>(count);
    bytes = bytes.subspan(count);
    if (slot_ >= 0 && filled_ == slot_bytes) {
      const auto next = next_;
      end_row();
      next_ = next;
    }
  }
}

void DirectStream::take_slot() {
  std::unique_lock guard(mutex_);
  work_done_.wait(guard, [&] { return !free_.empty(); });
  if (error_) std::rethrow_exception(error_);
  slot_ = free_.back();
  free_.pop_back();
  slot_offset_ = next_;
  filled_ = 0;
}

// Hands on what is in the slot; its last page, if it is not whole, now.
void DirectStream::end_row() {
  next_ = -1;
  if (slot_ < 0) return;
  const auto* begin = ring_ + static_cast<std::size_t>(slot_) * slot_bytes;
  const auto whole = filled_ / page * page;
  const auto rest = std::span(begin + whole, filled_ - whole);
  const auto slot = std::exchange(slot_, -1);
  const auto offset = slot_offset_;
  filled_ = 0;
  enqueue({offset, begin, whole, slot});
  if (!rest.empty()) put_buffered(offset + static_cast<std::int64_t>(whole), rest);
}

// Until nothing is on its way to these bytes: the last write of a byte counts.
void DirectStream::wait_for(std::int64_t begin, std::int64_t end) {
  std::unique_lock guard(mutex_);
  work_done_.wait(guard, [&] {
    const auto meets = [&](std::int64_t other_begin, std::int64_t other_end) {
      return other_begin < end && begin < other_end;
    };
    return (!busy_ || !meets(busy_begin_, busy_end_)) &&
           std::none_of(queue_.begin(), queue_.end(), [&](const Request& one) {
             return meets(one.offset, one.offset + static_cast<std::int64_t>(one.size));
           });
  });
}

void DirectStream::enqueue(const Request& request) {
  {
    const std::lock_guard guard(mutex_);
    if (error_) {
      if (request.slot >= 0) free_.push_back(request.slot);
      std::rethrow_exception(error_);
    }
    auto* last = queue_.empty() ? nullptr : &queue_.back();
    if (last && last->slot < 0 && request.slot < 0 && last->bytes + last->size == request.bytes &&
        last->offset + static_cast<std::int64_t>(last->size) == request.offset &&
        last->size + request.size <= largest_request) {
      last->size += request.size;
      return;
    }
    queue_.push_back(request);
  }
  work_to_do_.notify_one();
}

void DirectStream::flush() {
  end_row();
  std::unique_lock guard(mutex_);
  work_done_.wait(guard, [&] { return queue_.empty() && !busy_; });
  if (error_) std::rethrow_exception(error_);
}

void DirectStream::work() {
  std::unique_lock guard(mutex_);
  for (;;) {
    work_to_do_.wait(guard, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto request = queue_.front();
    queue_.pop_front();
    busy_ = true;
    busy_begin_ = request.offset;
    busy_end_ = request.offset + static_cast<std::int64_t>(request.size);
    if (!error_) {
      guard.unlock();
      std::exception_ptr error;
      try {
        put(request);
      } catch (...) {
        error = std::current_exception();
      }
      guard.lock();
      error_ = error;
    }
    busy_ = false;
    if (request.slot >= 0) free_.push_back(request.slot);
    work_done_.notify_all();
  }
}

void DirectStream::put(const Request& request) {
  auto offset = request.offset;
  auto rest = std::span(request.bytes, request.size);
  while (!rest.empty()) {
    // A call that wrote a part may leave an end that is not aligned.
    const bool aligned =
        on_page(offset) && on_page(rest.data()) && rest.size() % page == 0 && direct_works_;
    if (!aligned) return put_buffered(offset, rest);
    const auto count = std::min(rest.size(), largest_call);
    const auto done =
        retried([&] { return ::pwrite(direct_.get(), rest.data(), count, off_t{offset}); });
    if (done < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
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
