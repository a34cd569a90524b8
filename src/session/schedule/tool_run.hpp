#pragma once
/// Runs another program for a line or two of output, without waiting for it.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn {

/// Only one thread at a time may use it. The destructor kills the program and its process group if
/// it still runs, and does not wait. A process that does not end at once is reaped when a later one
/// is made.
class ToolRun {
 public:
  /// Finds the program by PATH. The program gets this process's environment, with these assignments
  /// ("TZ=UTC0") added or replaced; its standard input and error are /dev/null, and signals are as
  /// at the start of a program. A program that cannot be started counts as failed.
  explicit ToolRun(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment = {});
  ~ToolRun();
  ToolRun(const ToolRun&) = delete;
  ToolRun& operator=(const ToolRun&) = delete;

  /// Reads the output that is there. Returns true if the program has ended.
  bool poll();
  /// Waits for more output or for the end, at most so many seconds.
  void wait(double seconds);
  void kill();  ///< it counts as failed then

  /// Once the program has ended: its standard output (the first 64 KiB) if its exit code was 0.
  const std::optional<std::string>& output() const { return result_; }

 private:
  void close_pipe();
  bool read_some();
  void reap();

  pid_t process_ = -1;
  int pipe_ = -1;
  bool failed_ = false;
  std::string text_;
  std::optional<std::string> result_;
};

/// How many killed programs have not been seen to end. Reaps those that have ended.
int tools_to_reap();

}  // namespace cairn
