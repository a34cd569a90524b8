#pragma once
/// Decides when a save is due by the clock. It is pure: times and costs are arguments. All times
/// are in seconds.
#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/options.hpp"
#include "cairn/statistics.hpp"

namespace cairn {

/// What saves take, according to those that were measured.
struct SaveCost {
  double blocked = 0;  ///< mean time for which a save blocks the application
  double durable = 0;  ///< the longest time until a save is durable, without waits for a call
};
/// The cost of the given saves, at most the last 8; nothing if there are none.
std::optional<SaveCost> cost_of(const std::vector<SaveStatistics>& last);

/// Measures how much longer steps take while an asynchronous save is pending. Steps without a save
/// show what a step takes; what other steps take beyond that is the cost of the saves. Older steps
/// count less and less.
class SlowDown {
 public:
  void step(double seconds, bool has_pending);
  void save_begins();
  double seconds_a_save() const;  ///< ≥ 0; 0 as long as nothing was measured

 private:
  double quiet_seconds_ = 0, quiet_steps_ = 0, busy_seconds_ = 0, busy_steps_ = 0, saves_ = 0;
};

/// Rank 0 only. Counts work from the end of one save to the next.
class SaveSchedule {
 public:
  /// `mtbf` is the job's mean time between failures; it is used only with
  /// SaveInterval::optimal_for.
  SaveSchedule(const SaveInterval& interval, double mtbf) : interval_(interval), mtbf_(mtbf) {}

  bool by_clock() const { return interval_.seconds > 0 || interval_.optimal_for; }
  void saved(double now) { since_ = now; }
  bool due(double now, const std::optional<SaveCost>& cost, double slow_down);
  /// The seconds of work between two saves. If two rules apply, the shorter one counts.
  double seconds(const std::optional<SaveCost>& cost, double slow_down) const;

 private:
  SaveInterval interval_;
  double mtbf_;
  std::optional<double> since_;  // the end of the last save, or the first question
};

}  // namespace cairn
