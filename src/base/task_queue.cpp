// The queues of cairn/background.hpp.
#include "cairn/background.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "base/no_thread.hpp"

namespace cairn {
namespace {

// The thread begins with the first task, so a program that never saves asynchronously has none.
class ThreadQueue : public TaskQueue {
 public:
  ~ThreadQueue() override {
    if (is_forked_child()) {
      // A forked child has no such thread. The mutex and condition that the thread waits on can be
      // neither locked nor destroyed.
      shared_->thread.detach();
      static_cast<void>(shared_.release());
      return;
    }
    if (!shared_->thread.joinable()) return;
    {
      const MutexLock guard(shared_->mutex);
      shared_->ending = true;
    }
    shared_->changed.notify_all();
    shared_->thread.join();
  }

  void run(std::function<void()> task) override {
    auto& shared = *shared_;
    {
      const MutexLock guard(shared.mutex);
      if (!shared.thread.joinable()) start(shared);  // first: if it throws, the task is not taken
      shared.tasks.push_back(std::move(task));
      ++shared.given;
    }
    shared.changed.notify_all();
  }

  void drain() override {
    if (is_forked_child()) return;
    MutexLock lock(shared_->mutex);
    // Tasks that are given after this call are not waited for.
    const auto all = shared_->given;
    while (shared_->done < all) lock.wait(shared_->changed);
  }

 private:
  // What the thread uses. On the heap, so that a forked child can leave it behind instead of
  // destroying it.
  struct Shared {
    Mutex mutex;
    std::condition_variable changed;
    // Tasks that have not begun; and how many were given, and have ended, since the queue was made.
    std::vector<std::function<void()>> tasks CAIRN_GUARDED_BY(mutex);  // only a few at a time
    std::thread thread CAIRN_GUARDED_BY(mutex);
    unsigned long long given CAIRN_GUARDED_BY(mutex) = 0, done CAIRN_GUARDED_BY(mutex) = 0;
    bool ending CAIRN_GUARDED_BY(mutex) = false;
  };

  bool is_forked_child() const {
    const pid_t process = process_;
    return process != 0 && ::getpid() != process;
  }

  void start(Shared& shared) CAIRN_REQUIRES(shared.mutex) {
    try {
      shared.thread = std::thread([&shared] { work(shared); });
      process_ = ::getpid();
    } catch (const std::system_error& error) {
      throw no_thread("that saves behind the caller's back", error);
    }
  }

  static void work(Shared& shared) {
    MutexLock lock(shared.mutex);
    for (;;) {
      while (!shared.ending && shared.tasks.empty()) lock.wait(shared.changed);
      if (shared.tasks.empty()) return;
      auto task = std::move(shared.tasks.front());
      shared.tasks.erase(shared.tasks.begin());
      lock.unlock();
      task();
      task = nullptr;  // frees what the task holds before anybody learns that it is done
      lock.lock();
      ++shared.done;
      shared.changed.notify_all();
    }
  }

  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  std::atomic<pid_t> process_ = 0;  // the process that has the thread; read without the lock
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
