#pragma once
/// When the batch system ends this job.
#include <optional>
#include <string>
#include <string_view>

#include "cairn/stop.hpp"
#include "session/schedule/tool_run.hpp"

namespace cairn {

/// What `squeue -h -r -o "%A %e"` and `scontrol show job` print of the job, run with TZ=UTC0:
/// seconds since 1970. Both may list other tasks of a job array, too. Nothing for a job without
/// limit, and for anything else that is no time.
std::optional<double> end_from_squeue(std::string_view text, std::string_view job);
std::optional<double> end_from_scontrol(std::string_view text, std::string_view job);

/// Rank 0's. Asks without waiting: each call reads what has been answered meanwhile.
class JobEnd {
 public:
  /// Reads the environment. `began`: when the job did, by the clock of `wall`, as far as it is
  /// known.
  explicit JobEnd(const StopOptions& options, std::optional<double> began = std::nullopt);

  /// The end as far as it is known; nothing: no limit. `wall` is in seconds since 1970, `steady` in
  /// seconds that only go forward. An end before the job began is none: then the clock is wrong,
  /// which the log is told once.
  std::optional<double> at(double wall, double steady);

  /// Whether a tool has been asked and has not answered.
  bool asking() const { return tool_.has_value(); }
  /// Waits for that tool, so long at most.
  void wait(double seconds);

 private:
  enum class Tool { squeue, scontrol };
  void ask(Tool tool, double steady);
  void hear(double wall, double steady);
  void try_next(double steady);
  bool is_over_too_early(double end, double wall);

  double reask_, patience_;
  std::optional<double> began_;
  std::string job_;  // empty: nobody is asked
  std::optional<double> end_;
  Tool which_ = Tool::squeue;
  std::optional<ToolRun> tool_;
  double asked_ = 0;
  bool told_ = false;
  std::optional<double> next_;  // by the steady clock; at first: at once
};

}  // namespace cairn
