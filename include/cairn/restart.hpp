#pragma once
/// Which checkpoint a restart takes.
#include <array>

namespace cairn {

/// The group `restore`: what restore_latest does about checkpoints that a run cannot go on from.
/// docs/restarts.md has examples.
struct RestartOptions {
  /// After so many runs that have restored a step, and ended with no newer commit, the next older
  /// step is taken; 0: never. A run counts when it has ended in a way of which nothing is known, or
  /// has failed; not when it was told to stop (StopRequest, cairn-job), when Slurm says that its
  /// node, its time or somebody ended it, nor when its manager ended in good order. Not of
  /// read-only managers.
  int tries = 3;
  /// Go on to an older one when the newest is damaged, or has had its tries. False: an error.
  bool fall_back = true;
  /// Saves note which floating-point tensors have a NaN or an infinity. A step is passed over in
  /// which one has, and had none in the step before, or that follows such a one. What was not noted
  /// is never passed over. Saves on nodes and frozen tensors are not looked at.
  bool finite = false;
  bool verify_first = false;  ///< each restore: prove every byte before any array is touched

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [tries, fall_back, finite, verify_first] = self;
    options.agreed("tries", tries);
    options.agreed("fall_back", fall_back);
    options.agreed("finite", finite);
    options.agreed("verify_first", verify_first);
  }
};

/// What somebody knows of a step: bad, restore_latest passes it over; good, it does not, and how
/// often it was restored in vain is forgotten.
enum class StepMark { good, bad };
constexpr std::array<const char*, 2> words(StepMark) { return {"good", "bad"}; }

}  // namespace cairn
