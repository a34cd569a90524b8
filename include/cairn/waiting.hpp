#pragma once
/// How long a rank may wait for others inside a collective call of the library before something is
/// said of it, and done.

namespace cairn {

/// Of this process. Times are those of one wait, not of a whole call: a save of ten minutes, in
/// which no rank waits for another for a minute, is not reported.
struct WaitLimits {
  /// A rank that has waited for so long tells the log in which call, at what, and for whom as far
  /// as that is known; again each time the wait has doubled, and when it is over. Only rank 0 and
  /// ranks whose number is a power of two do, so that fifteen of ten thousand ranks that wait for
  /// one speak. 0: none does.
  double log_seconds = 60;
  /// A rank that has waited for so long ends the job: the message goes to the log and to the fatal
  /// handler (cairn/log.hpp), then the process ends with EXIT_FAILURE, and whatever started it ends
  /// the others (mpirun does; srun wants --kill-on-bad-exit). It must be longer than the slowest
  /// file system may take for one rank's part of a save or restore, since the others wait that
  /// long. 0: never, a wait may last as long as the job.
  double end_seconds = 0;
};

/// Not collective, though the same on all ranks is wise. Thread-safe; waits under way are measured
/// by the new limits. A thread of the library keeps them, which starts with the first object that
/// has ranks (a manager, say) and uses no MPI. Throws invalid_argument for what is negative or no
/// number.
void set_wait_limits(const WaitLimits& limits);
WaitLimits wait_limits();

}  // namespace cairn
