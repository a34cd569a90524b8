#pragma once
/// Records when a rank's caller and writer did what, in the JSON that trace viewers read.
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
  /// Any thread. `name` must outlive the trace.
  void add(const char* name, std::int64_t step, Thread, Time begin, Time end);
  /// An object with "traceEvents". Each rank is a process, its caller and its writer are threads.
  /// Times are microseconds since 1970, so that files of several ranks can be combined.
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
