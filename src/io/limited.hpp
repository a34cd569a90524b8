#pragma once
/// File operations whose callers stop waiting when the storage does not answer.
///
/// Each operation runs on a thread that nothing else needs. If it has not come back in time, it
/// fails for its caller and goes on alone. It owns all that it touches (the file, the names, a copy
/// of the bytes), so it touches nothing of the caller's when it wakes. What would have followed it,
/// a record or a removal, is not done. Until it has come back, all other operations fail at once.
/// The process can end meanwhile. For the stages of a save a missed limit is an I/O error like
/// others, so agreement, withdrawal and the next save need to know nothing of it. The price is a
/// second copy of what is written.
#include <chrono>
#include <memory>

#include "io/file_system.hpp"

namespace cairn::io {

class LimitedFileSystem : public FileSystem {
 public:
  /// Any thread: the limit of what callers wait for now has passed. For tests, which do not wait.
  virtual void give_up() = 0;
  /// Returns when what was given up has come back.
  virtual void wait_until_back() = 0;
};

/// Every operation fails with io when it has not come back after so many seconds. Reading ahead
/// (FileSystem::read_ahead) is as it was.
std::shared_ptr<LimitedFileSystem> limited(std::shared_ptr<FileSystem>, double seconds);

/// While it lives, this thread's operations on limited file systems fail once so many seconds have
/// passed since it was made. With several, the earliest counts. 0: no limit.
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
