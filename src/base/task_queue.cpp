#include "cairn/task_queue.hpp"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace cairn {
namespace {

class ThreadQueue : public TaskQueue {
 public:
  ~ThreadQueue() override {
    if (!thread_.joinable()) return;
    if (::getpid() != process_) {  // a forked child has no such thread
      thread_.detach();
      return;
    }
    {
      const std::lock_guard guard(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void run(std::function<void()> task) override {
    {
      const std::lock_guard guard(mutex_);
      tasks_.push_back(std::move(task));
      ++given_;
      if (!thread_.joinable()) {
        process_ = ::getpid();
        thread_ = std::thread([this] { work(); });
      }
    }
    changed_.notify_all();
  }

  void drain() override {
    std::unique_lock lock(mutex_);
    const auto all = given_;
    changed_.wait(lock, [&] { return done_ >= all; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      auto task = std::move(tasks_.front());
      tasks_.erase(tasks_.begin());
      lock.unlock();
      task();
      task = nullptr;  // what it holds goes before anybody hears that it is done
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> tasks_;  // few at a time
  std::thread thread_;
  pid_t process_ = 0;
  unsigned long long given_ = 0, done_ = 0;
  bool ending_ = false;
};

class InlineQueue : public TaskQueue {
 public:
  void run(std::function<void()> task) override { task(); }
  void drain() override {}
};

}  // namespace

std::shared_ptr<TaskQueue> thread_queue() { return std::make_shared<ThreadQueue>(); }
std::shared_ptr<TaskQueue> inline_queue() { return std::make_shared<InlineQueue>(); }

}  // namespace cairn
