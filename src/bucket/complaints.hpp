#pragma once
/// What is said of a server that does not answer.
#include <chrono>
#include <string>

#include "base/mutex.hpp"

namespace cairn::bucket {

/// All connections to a server share one, so that the log has a line when its silence begins, one
/// when it ends, and few in between. Any thread may use it.
class Complaints {
 public:
  /// A request has failed several times, and is tried again. `is_first`: this is said of it for the
  /// first time.
  void failed(bool is_first, const std::string& line);
  /// Such a request has ended.
  void ended(bool is_answered, const std::string& line);

  /// A request was answered, or was given up. After the latter others are not tried for long.
  void note(bool is_answered);
  bool has_given_up() const;

 private:
  using Clock = std::chrono::steady_clock;
  mutable Mutex mutex_;
  int waiting_ CAIRN_GUARDED_BY(mutex_) = 0;
  bool told_ CAIRN_GUARDED_BY(mutex_) = false;  // of this silence
  bool gave_up_ CAIRN_GUARDED_BY(mutex_) = false;
  Clock::duration pause_ CAIRN_GUARDED_BY(mutex_) = {};  // until the next line
  Clock::time_point last_ CAIRN_GUARDED_BY(mutex_) = {};
};

}  // namespace cairn::bucket
