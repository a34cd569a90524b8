#pragma once
/// Settings of the process: where the library's messages go, how long a rank may wait for others,
/// and what happens before the library ends a job. Mostly rank 0 logs; other ranks log only errors
/// of their own.
#include <functional>
#include <string_view>

namespace cairn {

enum class LogLevel { info, warning, error };

using LogSink = std::function<void(LogLevel, std::string_view message)>;

/// Replaces the sink of this process (default: one line on standard error; info is dropped, unless
/// the environment has CAIRN_LOG=info). An empty sink silences the library. Exceptions of a sink
/// are ignored. Thread-safe; several threads may call the sink at once.
void set_log_sink(LogSink sink);

/// Sends one message, without trailing newline, to the sink. Thread-safe.
void log(LogLevel level, std::string_view message);

/// Code of the application that is called before the library ends the job (MPI_Abort, or the end of
/// the process), for example to write to its own log. It must return, and must make no collective
/// call, since other ranks do not join. The library ends the job if a message between ranks failed,
/// or if a rank has waited for too long (WaitLimits). In the latter case a thread of the library
/// calls the handler, which may not use MPI.
using FatalHandler = std::function<void(std::string_view message)>;

/// Replaces the handler of this process (default: none). Its exceptions are ignored. Thread-safe.
void set_fatal_handler(FatalHandler handler);

/// The library, and implementations of Group::abort, call this just before they end a job. It sends
/// the message to the log as an error, then calls the handler. Without a sink and a handler the
/// message goes to standard error, so that no job ends without a message. Thread-safe; returns.
void tell_fatal(std::string_view message);

/// Limits of this process: how long a rank may wait for others inside a collective call of the
/// library before it logs that, and before it ends the job. They limit one wait, not a whole call:
/// a save of ten minutes, in which no rank waits for another for a minute, is not reported.
struct WaitLimits {
  /// A rank that has waited for so long logs in which call and operation it waits, and for which
  /// ranks, as far as that is known; again each time the wait has doubled, and when it is over.
  /// Only rank 0 and ranks whose number is a power of two do so: if ten thousand ranks wait for
  /// one, fifteen log it. 0: none does.
  double log_seconds = 60;
  /// A rank that has waited for so long ends the job: the message goes to the log and to the fatal
  /// handler, then the process ends with EXIT_FAILURE, and its launcher ends the others (mpirun
  /// does; srun needs --kill-on-bad-exit). It must be longer than the slowest file system may take
  /// for one rank's part of a save or restore, since the others wait that long. 0: never, a wait
  /// may last as long as the job.
  double end_seconds = 0;
};

/// Not collective, but all ranks should set the same limits. Thread-safe; the new limits apply also
/// to waits that have begun. A thread of the library measures waits; it starts with the first
/// object that has ranks (such as a manager) and uses no MPI. Throws invalid_argument for a
/// negative number or NaN.
void set_wait_limits(const WaitLimits& limits);
WaitLimits wait_limits();

}  // namespace cairn
