#include "tools/write_pool.hpp"

#include <system_error>
#include <utility>

namespace cairn {

WritePool::~WritePool() {
  {
    const MutexLock guard(mutex_);
    stop_ = true;
    tasks_.clear();
  }
  begun_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void WritePool::add(std::function<void()> task) {
  MutexLock guard(mutex_);
  rethrow();
  const bool wants_thread = threads_.size() < threads && tasks_.size() + busy_ >= threads_.size();
  if (wants_thread) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the threads that were started have to do
      if (threads_.empty()) {
        guard.unlock();
        return task();
      }
    }
  }
  tasks_.push_back(std::move(task));
  begun_.notify_one();
}

void WritePool::finish() {
  MutexLock guard(mutex_);
  while (!tasks_.empty() || busy_ > 0) guard.wait(done_);
  rethrow();
}

void WritePool::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void WritePool::work() {
  MutexLock guard(mutex_);
  for (;;) {
    while (!stop_ && tasks_.empty()) guard.wait(begun_);
    if (stop_) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    ++busy_;
    guard.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    task = nullptr;  // its memory is freed before it counts as done
    guard.lock();
    if (error && !error_) error_ = error;
    if (error) tasks_.clear();
    --busy_;
    done_.notify_all();
  }
}

}  // namespace cairn
