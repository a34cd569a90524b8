#pragma once
/// Settings of the process: where the library's few messages go, how long a rank may wait for
/// others, and what is done before the library ends a job. Rank 0 speaks; other ranks only on
/// errors of their own.
#include <functional>
#include <string_view>

namespace cairn {

enum class LogLevel { info, warning, error };

using LogSink = std::function<void(LogLevel, std::string_view message)>;

/// Replaces the sink of this process (default: one line on standard error; info is dropped,
/// unless the environment has CAIRN_LOG=info).
/// An empty sink silences the library. What a sink throws is ignored. Thread-safe; the sink itself
/// may be called from several threads at once.
void set_log_sink(LogSink sink);

/// Sends one message, without trailing newline, to the sink. Thread-safe.
void log(LogLevel level, std::string_view message);

/// What the application wants to do before the library ends the job (MPI_Abort, or the end of the
/// process): tell its own log, say. It must return, and must make no collective call, since other
/// ranks know nothing of this. The job ends because a message between ranks failed, or because a
/// rank has waited for too long (WaitLimits); then it is called from a thread of the library
/// and may not use MPI.
using FatalHandler = std::function<void(std::string_view message)>;

/// Replaces the handler of this process (default: none). What it throws is ignored. Thread-safe.
void set_fatal_handler(FatalHandler handler);

/// What the library does just before it ends a job, and implementations of Group::abort before they
/// do: sends the message to the log as an error, then calls the handler; with neither, it goes to
/// standard error, since no job should end without a word. Thread-safe; returns.
void tell_fatal(std::string_view message);

/// Of this process: how long a rank may wait for others inside a collective call of the library
/// before something is said of it, and done. Times are those of one wait, not of a whole call: a
/// save of ten minutes, in which no rank waits for another for a minute, is not reported.
struct WaitLimits {
  /// A rank that has waited for so long tells the log in which call, at what, and for whom as far
  /// as that is known; again each time the wait has doubled, and when it is over. Only rank 0 and
  /// ranks whose number is a power of two do, so that fifteen of ten thousand ranks that wait for
  /// one speak. 0: none does.
  double log_seconds = 60;
  /// A rank that has waited for so long ends the job: the message goes to the log and to the fatal
  /// handler, then the process ends with EXIT_FAILURE, and whatever started it ends
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
