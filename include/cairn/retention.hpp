#pragma once
/// Which checkpoints stay.
#include <cstdint>
#include <string>

namespace cairn {

/// The group `keep`: which checkpoints stay. Damaged ones do not; a step that a return to an
/// earlier one has left behind counts like any other. The others go after a save; before one that
/// lacks room, when the newest was read and found whole.
struct Retention {
  int last = 5;                   ///< so many of the newest stay; 0: all
  std::int64_t every_steps = 0;   ///< multiples of this step stay for ever; 0: none
  double every_hours = 0;         ///< one in so many hours stays for ever, the first first; 0: none
  int best = 0;                   ///< so many stay, the best of those that were saved with a metric
  bool larger_is_better = false;  ///< of metrics. NaN is worse than any number

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [last, every_steps, every_hours, best, larger_is_better] = self;
    options.agreed("last", last);
    options.agreed("every_steps", every_steps);
    options.agreed("every_hours", every_hours);
    options.agreed("best", best);
    options.agreed("larger_is_better", larger_is_better);
  }
};

struct RetentionDecision {
  std::int64_t step = 0;
  bool stays = true;
  std::string why;  ///< "one of the last 5", "pinned", …
};

}  // namespace cairn
