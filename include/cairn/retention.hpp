#pragma once
/// Which checkpoints stay.
#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

/// Tensors that not all checkpoints have, which are whole for the others: optimizer states, which
/// nobody reads once there are newer ones, of weights that are wanted for long. Each rank writes
/// tensors of one rule into data files of their own, so that letting them go is a new index and the
/// removal of files. As text "optimizer/*:last=2:every=10".
struct KeyRule {
  std::string keys;  ///< a pattern: `*` stands for any characters, `?` for one
  /// So many of the newest checkpoints keep them; 1 means 2, for a damaged newest one needs another
  /// that is whole. 0: all.
  int last = 2;
  /// One save in so many has them: a manager's first one, the first after a restore or a save that
  /// failed, and then each `every`-th. The others leave them out.
  int every = 1;
  bool operator==(const KeyRule&) const = default;
};

/// The group `keep`: which checkpoints stay. Damaged ones do not; a step that a return to an
/// earlier one has left behind counts like any other. The others go after a save; before one that
/// lacks room, when the newest was read and found whole.
struct Retention {
  int last = 5;                   ///< so many of the newest stay; 0: all
  std::int64_t every_steps = 0;   ///< multiples of this step stay for ever; 0: none
  double every_hours = 0;         ///< one in so many hours stays for ever, the first first; 0: none
  int best = 0;                   ///< so many stay, the best of those that were saved with a metric
  bool larger_is_better = false;  ///< of metrics. NaN is worse than any number
  /// A tensor is of the first rule that its key fits. Bundles with renames, without a tier; else
  /// unsupported when a manager is made. Pinned checkpoints keep all; with rules the two newest
  /// that have everything always stay. The state goes on from a checkpoint that has all it wants.
  std::vector<KeyRule> keys = {};

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [last, every_steps, every_hours, best, larger_is_better, keys] = self;
    options.agreed("last", last);
    options.agreed("every_steps", every_steps);
    options.agreed("every_hours", every_hours);
    options.agreed("best", best);
    options.agreed("larger_is_better", larger_is_better);
    options.agreed("keys", keys);
  }
};

struct RetentionDecision {
  std::int64_t step = 0;
  bool stays = true;
  std::string why;  ///< "one of the last 5", "pinned", …
};

}  // namespace cairn
