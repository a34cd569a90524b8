#pragma once
/// Writing past the page cache: whole pages go to the disk by a thread, while the caller prepares
/// more.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "io/descriptor.hpp"
#include "io/direct.hpp"
#include "io/file_system.hpp"

namespace cairn::io {

/// Of one file, for one thread. Pages that are written only in part, and those before and behind
/// what is written in a row, go through the page cache: no byte is touched that was not given.
class DirectStream {
 public:
  /// Null where the file system does not take it, or memory or a thread cannot be had. `buffered`
  /// is open on the same file for reading and writing, and outlives the result.
  static std::unique_ptr<DirectStream> open(int buffered, const Path&);
  ~DirectStream();  ///< waits for what was written; errors are lost

  /// Returns when the bytes are written, or copied, or, if they stay, at once. Throws what an
  /// earlier write met.
  void write(std::int64_t offset, std::span<const std::byte> bytes, bool stay);
  /// Waits. Throws the first error of all writes, each time.
  void flush();

 private:
  struct Request {
    std::int64_t offset;
    const std::byte* bytes;
    std::size_t size;
    int slot;  ///< that is free afterwards; -1: it is memory that stays
  };

  DirectStream(int buffered, Descriptor direct, const Path& path, std::byte* ring);
  void put(const Request&);
  void put_buffered(std::int64_t offset, std::span<const std::byte>);
  void enqueue(const Request&);
  void end_row();
  void wait_for(std::int64_t begin, std::int64_t end);
  void take_slot();
  void work();

  const int buffered_;
  Descriptor direct_;
  const Path path_;
  std::byte* ring_;
  std::atomic<bool> direct_works_ = true;

  // Of the caller: the row's next offset, and its pages that are not enqueued yet.
  std::int64_t next_ = -1;
  std::int64_t slot_offset_ = 0;
  std::size_t filled_ = 0;
  int slot_ = -1;

  std::mutex mutex_;
  std::condition_variable work_to_do_, work_done_;
  std::deque<Request> queue_;
  std::vector<int> free_;
  std::exception_ptr error_;
  std::int64_t busy_begin_ = 0, busy_end_ = 0;  // what the thread writes now
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace cairn::io
