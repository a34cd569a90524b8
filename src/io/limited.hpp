#pragma once
/// File operations whose callers stop waiting when the storage does not answer.
///
/// Each operation runs on a thread that runs nothing else. If the operation has not come back in
/// time, it fails for its caller and goes on alone. It owns all that it touches (the file, the
/// names, a copy of the bytes), so it touches no memory of the caller later. Steps that would
/// follow it, such as a record or a removal, are not done. Until it has come back, all other
/// operations fail at once. The process can end meanwhile. For the stages of a save a missed limit
/// is an error like others, so agreement, withdrawal and the next save need no code for it. The
/// price is a second copy of what is written.
#include <chrono>
#include <functional>
#include <memory>

#include "io/file_system.hpp"

namespace cairn::io {

class LimitedFileSystem : public FileSystem {
 public:
  /// Any thread. Fails the operations under way as if their limit had passed. For tests, which do
  /// not wait.
  virtual void give_up() = 0;
  /// Returns when no operation is stuck.
  virtual void wait_until_back() = 0;

  /// What has these limits.
  virtual FileSystem& target() = 0;
  /// Any thread. Does this work, which owns all that it touches, as an operation at this path.
  virtual void run(const char* action, const Path&, std::function<void()> work) = 0;
};

/// Every operation fails with unavailable if it has not come back after this many seconds. Reading
/// ahead (FileSystem::read_ahead) has no limit.
std::shared_ptr<LimitedFileSystem> limited(std::shared_ptr<FileSystem>, double seconds);

/// While it lives, this thread's operations on limited file systems fail from this many seconds
/// after its construction on. With several, the earliest counts. 0: no limit.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(double seconds);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  Clock::time_point before_;
};

}  // namespace cairn::io
