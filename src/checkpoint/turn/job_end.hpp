#pragma once
/// When the batch system ends this job.
#include <optional>
#include <string>
#include <string_view>

#include "base/tool_run.hpp"
#include "cairn/stop.hpp"

namespace cairn {

/// What `squeue -h -o %e` and `scontrol show job` print, run with TZ=UTC0: seconds since 1970.
/// Nothing for a job without limit, and for anything else that is no time.
std::optional<double> end_from_squeue(std::string_view text);
std::optional<double> end_from_scontrol(std::string_view text);

/// Rank 0's. Asks without waiting: each call takes in what has been answered meanwhile.
class JobEnd {
 public:
  /// Reads the environment.
  explicit JobEnd(const StopOptions& options);

  /// The end as far as it is known; nothing: no limit. `now` is in seconds since 1970.
  std::optional<double> at(double now);

  /// Whether a tool has been asked and has not answered.
  bool asking() const { return tool_.has_value(); }
  /// Waits for that tool, so long at most.
  void wait(double seconds);

 private:
  enum class Tool { squeue, scontrol };
  void ask(Tool tool, double now);
  void hear(double now);
  void try_next(double now);

  double reask_, patience_;
  std::string job_;  // empty: nobody is asked
  std::optional<double> end_;
  Tool which_ = Tool::squeue;
  std::optional<ToolRun> tool_;
  double asked_ = 0, next_ = 0;  // next_ 0: at once
};

}  // namespace cairn
