// When a save is due by the clock, from what saves have cost so far.
#include "session/schedule/save_schedule.hpp"

#include <algorithm>
#include <limits>

#include "cairn/optimal_interval.hpp"

namespace cairn {
namespace {

constexpr std::size_t saves_that_count = 8;
// At each save all sums lose a quarter, so the last saves count most.
constexpr double fade = 0.75;
// A first guess in seconds, until a save was measured.
constexpr SaveCost unmeasured{1, 1};

}  // namespace

std::optional<SaveCost> cost_of(const std::vector<SaveStatistics>& last) {
  if (last.empty()) return std::nullopt;
  const auto count = std::min(last.size(), saves_that_count);
  SaveCost cost;
  for (auto i = last.size() - count; i < last.size(); ++i) {
    const auto& save = last[i];
    cost.blocked += save.blocked_seconds / static_cast<double>(count);
    const double work = save.seconds.sum() - save.seconds.tidy - save.seconds.wait;
    cost.durable = std::max({cost.durable, save.blocked_seconds, work});
  }
  return cost;
}

void SlowDown::step(double seconds, bool has_pending) {
  (has_pending ? busy_seconds_ : quiet_seconds_) += seconds;
  (has_pending ? busy_steps_ : quiet_steps_) += 1;
}

void SlowDown::save_begins() {
  for (double* sum : {&quiet_seconds_, &quiet_steps_, &busy_seconds_, &busy_steps_, &saves_}) {
    *sum *= fade;
  }
  saves_ += 1;  // not faded, like the steps that follow
}

double SlowDown::seconds_a_save() const {
  if (quiet_steps_ == 0 || saves_ == 0) return 0;
  const double expected = busy_steps_ * quiet_seconds_ / quiet_steps_;
  return std::max(0.0, busy_seconds_ - expected) / saves_;
}

double SaveSchedule::seconds(const std::optional<SaveCost>& measured, double slow_down) const {
  double shortest = std::numeric_limits<double>::infinity();
  if (interval_.seconds > 0) shortest = interval_.seconds;
  if (interval_.optimal_for) {
    const auto cost = measured.value_or(unmeasured);
    const double best = optimal_interval(std::max(cost.blocked + slow_down, 0.0), mtbf_);
    // A save that begins before the last one is durable would only wait.
    shortest = std::min(shortest, std::max(best, cost.durable));
  }
  return shortest;
}

bool SaveSchedule::due(double now, const std::optional<SaveCost>& cost, double slow_down) {
  // The first question begins the first interval.
  if (!since_) since_ = now;
  return by_clock() && now - *since_ >= seconds(cost, slow_down);
}

}  // namespace cairn
