#pragma once
/// How a restart chooses its checkpoint.
#include <array>

namespace cairn {

/// The group `restore`: what restore_latest does about checkpoints from which runs cannot go on.
/// docs/restarts.md has examples.
struct RestartOptions {
  /// After so many runs have restored a step and ended without a newer commit, the next older step
  /// is taken; 0: never. A run counts if it has failed, or if it is not known how it ended. It does
  /// not count if it was told to stop (StopRequest, cairn-job), if Slurm says that its node, its
  /// time limit or somebody ended it, or if its manager ended in good order. Runs with a read-only
  /// manager do not count.
  int tries = 3;
  /// Take an older step if the newest is damaged or has used up its tries. False: that is an error.
  bool fall_back = true;
  /// Saves note which floating-point tensors have a NaN or an infinity. restore_latest skips a step
  /// in which a tensor has one that had none in the step before, and the steps that follow from it.
  /// Steps without such notes are never skipped for this. Saves on nodes and frozen tensors are not
  /// checked.
  bool finite = false;
  bool verify_first = false;  ///< each restore checks every byte before any array is touched

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [tries, fall_back, finite, verify_first] = self;
    options.agreed("tries", tries);
    options.agreed("fall_back", fall_back);
    options.agreed("finite", finite);
    options.agreed("verify_first", verify_first);
  }
};

/// A verdict on a step. bad: restore_latest skips it. good: it does not, and the count of runs that
/// restored it in vain is reset.
enum class StepMark { good, bad };
constexpr std::array<const char*, 2> words(StepMark) { return {"good", "bad"}; }

}  // namespace cairn
