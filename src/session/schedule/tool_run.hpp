#pragma once
/// Another program, asked for a line or two without waiting for it.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn {

/// One thread at a time. Destroying it ends the program if it still runs, with its process group,
/// and waits for nothing: what is left of a process that does not end at once is taken away when a
/// later one is made.
class ToolRun {
 public:
  /// Found by PATH. Its environment is this process's, with these assignments ("TZ=UTC0") added or
  /// put in place of others; standard input and error are /dev/null, signals as at the start of a
  /// program. One that cannot be started counts as one that failed.
  explicit ToolRun(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment = {});
  ~ToolRun();
  ToolRun(const ToolRun&) = delete;
  ToolRun& operator=(const ToolRun&) = delete;

  /// Takes in what there is. True: it has ended.
  bool poll();
  /// Waits for more output or its end, so long at most.
  void wait(double seconds);
  void kill();  ///< it has failed then

  /// Of one that has ended: standard output (the first 64 KiB) if its exit code was 0.
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

/// How many that were killed have not been seen to end; takes away those that have.
int tools_to_reap();

}  // namespace cairn
