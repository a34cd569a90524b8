#pragma once
/// Writes many files at a time: each waits for its fsync, and waiting for many at once costs
/// little.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace cairn {

/// Threads that run tasks in any order. After the first error no further task begins; the caller's
/// next call throws that error. The destructor drops tasks that have not begun.
class WritePool {
 public:
  static constexpr int threads = 4;

  WritePool() = default;
  WritePool(const WritePool&) = delete;
  WritePool& operator=(const WritePool&) = delete;
  ~WritePool();

  void add(std::function<void()>);
  /// Waits until all added tasks are done.
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
