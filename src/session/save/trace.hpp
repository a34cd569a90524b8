#pragma once
/// What a rank's caller and writer did when, in the JSON that trace viewers read.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "io/file_system.hpp"

namespace cairn {

class Trace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Thread { caller, writer };

  explicit Trace(int rank);
  /// `name` outlives the trace. Any thread.
  void add(const char* name, std::int64_t step, Thread, Time begin, Time end);
  /// An object with "traceEvents": one process line a rank, one thread line each for its caller and
  /// its writer. Times are microseconds since 1970, so that the files of all ranks fit together.
  std::string json() const;

 private:
  struct Event {
    const char* name;
    std::int64_t step;
    Thread thread;
    Time begin, end;
  };

  const int rank_;
  const std::chrono::system_clock::time_point wall_ = std::chrono::system_clock::now();
  const Time steady_ = std::chrono::steady_clock::now();
  mutable Mutex mutex_;
  std::vector<Event> events_ CAIRN_GUARDED_BY(mutex_);
};

/// PATH.RANK.json
io::Path trace_file(const io::Path& path, int rank);

}  // namespace cairn
