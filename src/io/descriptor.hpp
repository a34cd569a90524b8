#pragma once
/// Shared by the parts of the POSIX file system.
#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/system_error.hpp"

namespace cairn::io {

// The most bytes of one read or write. Linux itself moves at most 2 GiB - 4 KiB a call.
inline constexpr std::size_t largest_call = std::size_t{1} << 30;

// Bytes that are written in a row are handed to the disk in portions of at least this size.
inline constexpr std::int64_t write_back_bytes = std::int64_t{8} << 20;

/// Repeats a call that a signal has interrupted; but not for ever, since a timer may interrupt it
/// each time: in the end EINTR is the error.
template <class Call>
auto retried(Call call) {
  constexpr int most = 10000;
  for (int i = 1;; ++i) {
    const auto result = call();
    if (result != -1 || errno != EINTR || i == most) return result;
  }
}

/// Repeats a look at a name that led to a file which another node has removed or replaced meanwhile
/// (ESTALE of NFS and of FUSE's file systems). The kernel itself looks again only once.
template <class Look>
auto looked_up(Look look) {
  constexpr int most = 20;
  for (int i = 1;; ++i) {
    const auto result = retried(look);
    if (result != -1 || errno != ESTALE || i == most) return result;
  }
}

/// While it lives, a write of this thread beyond the limit of a file's size (RLIMIT_FSIZE) fails
/// with EFBIG, as the caller expects, and does not end the process by SIGXFSZ.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&one_);
    sigaddset(&one_, SIGXFSZ);
    blocked_ = ::pthread_sigmask(SIG_BLOCK, &one_, &before_) == 0;
  }
  ~NoFileSizeSignal() {
    // If the application itself blocks the signal, its mask and a pending signal stay as they are.
    if (!blocked_ || sigismember(&before_, SIGXFSZ) == 1) return;
    const int error = errno;
    // A pending signal would arrive as soon as it is unblocked.
    const timespec at_once = {0, 0};
    while (::sigtimedwait(&one_, nullptr, &at_once) == -1 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t one_, before_;
  bool blocked_ = false;
};

/// open(), whose result is never 0, 1 or 2. Programs take these for standard input, output and
/// error: if one of them is closed, the program's output would go into the file.
inline int open_file(const char* path, int flags, mode_t mode = 0) {
  const int number = looked_up([&] { return ::open(path, flags | O_CLOEXEC, mode); });
  if (number < 0 || number > 2) return number;
  const int moved = ::fcntl(number, F_DUPFD_CLOEXEC, 3);
  const int error = errno;
  ::close(number);
  errno = error;
  return moved;
}

/// Owns an open file. Its destructor loses errors; close() returns them.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  /// 0, or an errno value. Never retried: after EINTR Linux has closed the descriptor.
  int close() {
    const int number = std::exchange(number_, -1);
    return number >= 0 && ::close(number) != 0 && errno != EINTR ? errno : 0;
  }

 private:
  int number_;
};

/// Lets the disk begin to write while the caller prepares more; otherwise it is idle until the
/// sync. A hint that may fail: it does not wait, promises nothing, and leaves it to the sync to
/// report lost writes.
inline void start_write_back([[maybe_unused]] int descriptor, [[maybe_unused]] std::int64_t begin,
                             [[maybe_unused]] std::int64_t end) {
#ifdef SYNC_FILE_RANGE_WRITE
  ::sync_file_range(descriptor, begin, end - begin, SYNC_FILE_RANGE_WRITE);
#endif
}

}  // namespace cairn::io
