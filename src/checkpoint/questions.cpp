// should_save and should_stop.
#include <cmath>

#include "base/text.hpp"
#include "checkpoint/series.hpp"

namespace cairn {

void Series::check_interval() const {
  const auto& interval = job.options.interval;
  const auto& mtbf = interval.optimal_for;
  if (interval.steps >= 0 && interval.seconds >= 0 && (!mtbf || mtbf->seconds > 0)) return;
  throw Error(Code::invalid_argument, "a number in ManagerOptions::interval cannot be used",
              cat("steps ", interval.steps, ", seconds ", interval.seconds,
                  ", mean time between "
                  "failures ",
                  mtbf ? cat(mtbf->seconds) : "not given"),
              "Steps and seconds are from 0 on, the mean time is more than 0.");
}

// Collective.
void Series::take_turn(bool of_save) {
  turns->begin_turn(of_save);
  if (turns->hear(!flights.empty())) advance(false);
  if (!turns->asks() && flights.empty()) return;
  const bool in_flight = !flights.empty();
  const bool busy = in_flight && !flights.front()->handle->idle;
  if (job.root() && turns->knows_of() != ledger.count()) {
    turns->learn(ledger.count(), ledger.statistics().last);
  }
  turns->ask(in_flight, busy);
}

bool CheckpointManager::should_save(std::int64_t step) {
  auto& self = *impl_;
  return guarded(*self.job.group, turn_call, [&] {
    if (self.turns->turn_is_over_for_save()) self.take_turn(true);
    return self.turns->should_save(step);
  });
}

std::optional<StopReason> CheckpointManager::should_stop() {
  auto& self = *impl_;
  return guarded(*self.job.group, turn_call, [&] {
    if (self.turns->turn_is_over_for_stop()) self.take_turn(false);
    return self.turns->stop();
  });
}

}  // namespace cairn
