#pragma once
/// Which checkpoints stay when more are saved than are to be kept.
#include <cstdint>
#include <optional>
#include <string>

namespace cairn {

/// Which checkpoints stay besides the last max_to_keep. Damaged ones do not; a step that a return
/// to an earlier one has left behind counts like any other.
struct Retention {
  std::int64_t every_steps = 0;   ///< multiples of this step stay for ever; 0: none
  double every_hours = 0;         ///< one in so many hours stays for ever, the first first; 0: none
  int best = 0;                   ///< so many stay, the best of those that were saved with a metric
  bool larger_is_better = false;  ///< of metrics. NaN is worse than any number
};

/// What a save says of its checkpoint beyond the state. The same on all ranks.
struct SaveOptions {
  std::optional<double> metric = std::nullopt;  ///< how good it is, for Retention::best
};

struct RetentionDecision {
  std::int64_t step = 0;
  bool stays = true;
  std::string why;  ///< "one of the last 5", "pinned", …
};

}  // namespace cairn
