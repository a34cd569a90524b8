#pragma once
/// A mutex for clang's -Wthread-safety, which refuses code that touches guarded memory without the
/// lock. Other compilers ignore the annotations. Clang does not check constructors and destructors.
#include <condition_variable>
#include <mutex>
#include <utility>

#ifdef __clang__
#define CAIRN_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define CAIRN_THREAD_SAFETY(attribute)
#endif
/// For a variable that is touched only with the mutex held.
#define CAIRN_GUARDED_BY(mutex) CAIRN_THREAD_SAFETY(guarded_by(mutex))
/// The same for the memory that a pointer points to, or the value in an optional.
#define CAIRN_PT_GUARDED_BY(mutex) CAIRN_THREAD_SAFETY(pt_guarded_by(mutex))
/// For a function or lambda that is called with the mutex held. It may release the mutex and take
/// it again.
#define CAIRN_REQUIRES(mutex) CAIRN_THREAD_SAFETY(requires_capability(mutex))

namespace cairn {

class CAIRN_THREAD_SAFETY(capability("mutex")) Mutex {
 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds the mutex until it is destroyed, except between unlock() and lock(). wait() takes no
/// predicate, since each such lambda would need CAIRN_REQUIRES: callers check their condition in a
/// loop.
class CAIRN_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CAIRN_THREAD_SAFETY(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~MutexLock() CAIRN_THREAD_SAFETY(release_capability()) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() CAIRN_THREAD_SAFETY(release_capability()) { lock_.unlock(); }
  void lock() CAIRN_THREAD_SAFETY(acquire_capability()) { lock_.lock(); }
  /// Calls the function without the lock. For functions that got the lock from their caller and may
  /// not unlock() it.
  template <class Function>
  void without(Function&& function) {
    lock_.unlock();
    // Takes the lock again even if the function throws.
    struct Relock {
      std::unique_lock<std::mutex>& lock;
      ~Relock() { lock.lock(); }
    } const relock{lock_};
    std::forward<Function>(function)();
  }

  /// May return without a reason.
  void wait(std::condition_variable& changed) { changed.wait(lock_); }
  template <class Time>
  std::cv_status wait_until(std::condition_variable& changed, const Time& time) {
    return changed.wait_until(lock_, time);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace cairn
