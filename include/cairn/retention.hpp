#pragma once
/// Which checkpoints stay.
#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

/// A rule for tensors that only some checkpoints keep, such as optimizer states, which nobody reads
/// once there are newer ones, while the weights are wanted for long. A checkpoint without them is
/// whole for its other tensors. Each rank writes the tensors of one rule into data files of their
/// own, so that removing them takes a new index and the removal of files. As text
/// "optimizer/*:last=2:every=10".
struct KeyRule {
  std::string keys;  ///< a pattern: `*` stands for any characters, `?` for one
  /// So many of the newest checkpoints keep them. 1 means 2: if the newest is damaged, another must
  /// be whole. 0: all keep them.
  int last = 2;
  /// One save in so many stores them: a manager's first save, the first after a restore or a failed
  /// save, and then each `every`-th. Other saves leave them out.
  int every = 1;
  bool operator==(const KeyRule&) const = default;
};

/// The group `keep`: which checkpoints stay. For `last`, superseded steps count as older than all
/// live ones, and damaged ones as the oldest; the other rules keep superseded steps, but no damaged
/// ones. The rest is removed after a save, or before a save that lacks room, if the newest
/// checkpoint was read and found whole.
struct Retention {
  int last = 5;                   ///< so many of the newest checkpoints stay; 0: all
  std::int64_t every_steps = 0;   ///< multiples of this step stay for ever; 0: none
  double every_hours = 0;         ///< the first stays for ever, then one in so many hours; 0: none
  int best = 0;                   ///< so many of those that were saved with a metric stay, the best
  bool larger_is_better = false;  ///< for metrics. NaN is worse than any number
  /// The first rule whose pattern fits a tensor's key applies to it. Only for bundles with renames
  /// and without a tier; else a manager throws unsupported when it is made. Pinned checkpoints keep
  /// all tensors; with rules the two newest that have everything always stay. A restart takes a
  /// checkpoint that has all tensors of the state.
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
