#pragma once
/// A mutex that clang's -Wthread-safety knows: it refuses code that touches guarded memory without
/// the lock. Other compilers see nothing of it. Constructors and destructors are not looked at.
#include <condition_variable>
#include <mutex>
#include <utility>

#ifdef __clang__
#define CAIRN_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define CAIRN_THREAD_SAFETY(attribute)
#endif
/// Of a variable: touched with the mutex held only.
#define CAIRN_GUARDED_BY(mutex) CAIRN_THREAD_SAFETY(guarded_by(mutex))
/// The same of what it points to, or an optional holds.
#define CAIRN_PT_GUARDED_BY(mutex) CAIRN_THREAD_SAFETY(pt_guarded_by(mutex))
/// Of a function, or a lambda: called with the mutex held, which it may give up and take again.
#define CAIRN_REQUIRES(mutex) CAIRN_THREAD_SAFETY(requires_capability(mutex))

namespace cairn {

class CAIRN_THREAD_SAFETY(capability("mutex")) Mutex {
 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds it until it ends, but for the time between unlock() and lock(). The lambdas that
/// conditions take would each need CAIRN_REQUIRES: whoever waits looks again in a loop of his own.
class CAIRN_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CAIRN_THREAD_SAFETY(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~MutexLock() CAIRN_THREAD_SAFETY(release_capability()) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() CAIRN_THREAD_SAFETY(release_capability()) { lock_.unlock(); }
  void lock() CAIRN_THREAD_SAFETY(acquire_capability()) { lock_.lock(); }
  /// Does this without it. For whoever got the lock from his caller, and may not unlock() it.
  template <class Function>
  void without(Function&& function) {
    lock_.unlock();
    std::forward<Function>(function)();
    lock_.lock();
  }

  /// May return for no reason.
  void wait(std::condition_variable& changed) { changed.wait(lock_); }
  template <class Time>
  std::cv_status wait_until(std::condition_variable& changed, const Time& time) {
    return changed.wait_until(lock_, time);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace cairn
