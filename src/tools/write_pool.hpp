#pragma once
/// Work on many files at a time: each waits for its fsync, which costs little beside others.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace cairn {

/// Threads that do tasks in any order. After the first error no task begins; the next call of the
/// caller throws it. The destructor gives up what has not begun.
class WritePool {
 public:
  static constexpr int threads = 4;

  WritePool() = default;
  WritePool(const WritePool&) = delete;
  WritePool& operator=(const WritePool&) = delete;
  ~WritePool();

  void add(std::function<void()>);
  /// All that was added is done.
  void finish();

 private:
  void work();
  void rethrow() const CAIRN_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable begun_, done_;
  std::deque<std::function<void()>> tasks_ CAIRN_GUARDED_BY(mutex_);
  std::size_t busy_ CAIRN_GUARDED_BY(mutex_) = 0;
  bool stop_ CAIRN_GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ CAIRN_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // of whoever adds
};

}  // namespace cairn
