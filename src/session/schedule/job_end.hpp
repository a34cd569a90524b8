#pragma once
/// Finds out when the batch system will end this job.
#include <optional>
#include <string>
#include <string_view>

#include "cairn/stop.hpp"
#include "session/schedule/tool_run.hpp"

namespace cairn {

/// The end of the job, in seconds since 1970, from the output of `squeue -h -r -o "%A %e"` or of
/// `scontrol show job`, run with TZ=UTC0. Both outputs may list other tasks of a job array, too.
/// Nothing for a job without limit, and if there is no time in the output.
std::optional<double> end_from_squeue(std::string_view text, std::string_view job);
std::optional<double> end_from_scontrol(std::string_view text, std::string_view job);

/// Rank 0 only. It asks without waiting: each call reads what has been answered meanwhile.
class JobEnd {
 public:
  /// Reads the environment. `began` is when the job began, by the clock of `wall`, if it is known.
  explicit JobEnd(const StopOptions& options, std::optional<double> began = std::nullopt);

  /// The end of the job, as far as it is known; nothing if there is no limit. `wall` is in seconds
  /// since 1970, `steady` in seconds of a clock that never goes back. An end before the job began
  /// is ignored: the clock is wrong then, and that is logged once.
  std::optional<double> at(double wall, double steady);

  /// Returns whether a tool was asked and has not answered yet.
  bool asking() const { return tool_.has_value(); }
  /// Waits for that tool, at most for so many seconds.
  void wait(double seconds);

 private:
  enum class Tool { squeue, scontrol };
  void ask(Tool tool, double steady);
  void hear(double wall, double steady);
  void try_next(double steady);
  bool is_over_too_early(double end, double wall);

  // reask_: seconds until a tool is asked again, since a limit may be changed; patience_: seconds
  // after which a tool that does not answer is killed.
  double reask_, patience_;
  std::optional<double> began_;
  std::string job_;  // empty if no tool is asked
  // The last answer; it stays while a later question is under way or has failed.
  std::optional<double> end_;
  Tool which_ = Tool::squeue;
  std::optional<ToolRun> tool_;
  double asked_ = 0;
  // The log has a message on what is wrong; it gets only one.
  bool told_ = false;
  std::optional<double> next_;  // when to ask next, by the steady clock; empty: at once
};

}  // namespace cairn
