#pragma once
/// When a save is due by the clock. Pure: times and costs are given. All times are seconds.
#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/options.hpp"
#include "cairn/statistics.hpp"

namespace cairn {

/// What saves take, from those that were measured.
struct SaveCost {
  double blocked = 0;  ///< holds the application; mean
  double durable = 0;  ///< until it is durable, where nobody waits for a call; the longest
};
/// Of the last ones, 8 at most; nothing if there are none.
std::optional<SaveCost> cost_of(const std::vector<SaveStatistics>& last);

/// How much longer steps take while an asynchronous save is pending. Steps without one tell what
/// a step takes; what the others took beyond that is the cost of the saves. Older ones fade.
class SlowDown {
 public:
  void step(double seconds, bool has_pending);
  void save_begins();
  double seconds_a_save() const;  ///< ≥ 0; 0 as long as nothing is known

 private:
  double quiet_seconds_ = 0, quiet_steps_ = 0, busy_seconds_ = 0, busy_steps_ = 0, saves_ = 0;
};

/// Rank 0's. Counts work, from the end of one save to the next.
class SaveSchedule {
 public:
  /// mtbf: of the job; with SaveInterval::optimal_for only.
  SaveSchedule(const SaveInterval& interval, double mtbf) : interval_(interval), mtbf_(mtbf) {}

  bool by_clock() const { return interval_.seconds > 0 || interval_.optimal_for; }
  void saved(double now) { since_ = now; }
  bool due(double now, const std::optional<SaveCost>& cost, double slow_down);
  /// How much work there is to be between two saves; the shorter where two rules say.
  double seconds(const std::optional<SaveCost>& cost, double slow_down) const;

 private:
  SaveInterval interval_;
  double mtbf_;
  std::optional<double> since_;  // the last save, or the first question
};

}  // namespace cairn
