#pragma once
/// Reasons to end a job in good order: a signal, the job's time limit, a file, a request of the
/// application.
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

/// Exit codes of a program that stops as should_stop() asks, for the script around it. 0: all is
/// done. Any other code is a failure.
inline constexpr int exit_to_go_on = 75;    ///< saved; another job should go on (EX_TEMPFAIL)
inline constexpr int exit_on_request = 76;  ///< saved; somebody ended the run: no other job yet

enum class StopKind {
  time_limit = 1,  ///< the rest of the job's time is just enough for a save
  signal,
  file,        ///< somebody made the file STOP (StopOptions::file) in the checkpoint directory
  application  ///< StopRequest::request
};

/// Why to stop; the same on all ranks.
struct StopReason {
  StopKind kind = StopKind::application;
  int rank = 0;              ///< the lowest rank with this reason
  int signal = 0;            ///< the number, for a signal
  double end_seconds = 0;    ///< for a time limit: when the job ends, since 1970
  double left_seconds = 0;   ///< for a time limit: from the question to the end
  double save_seconds = -1;  ///< for a time limit: how long a save takes; -1: none was measured
  std::string file = "";     ///< for a file: its path

  /// "SIGUSR1 on rank 3", "time limit 2026-11-22 14:05:00 UTC: 40 s left, a save takes 22 s",
  /// "file run/STOP", "application, on rank 0".
  std::string text() const;
  /// exit_to_go_on for signals and the time limit, exit_on_request for the others.
  int exit_code() const;
};

struct StopOptions {
  /// Signals that ask the process to stop instead of ending it: SIGTERM, SIGUSR1, SIGUSR2, and the
  /// like. Empty: no handler is installed. All ranks should give the same ones, but need not.
  std::vector<int> signals = {SIGTERM, SIGUSR1};
  /// Whether the job's time limit counts. The job ends at end_seconds if given (since 1970), else
  /// at SLURM_JOB_END_TIME, else when `squeue` or, if that fails, `scontrol` says for SLURM_JOB_ID:
  /// rank 0 asks them in the background, and again every reask_seconds, as limits can be changed.
  /// Without an answer there is no limit. A limit that was over before the manager was made is
  /// ignored: then rank 0's clock is wrong, and the log says so.
  bool time_limit = true;
  std::optional<double> end_seconds = std::nullopt;
  double reask_seconds = 600;
  double tool_seconds = 10;  ///< a tool that takes longer is killed, and asked again later
  /// The time limit is a reason to stop when less time is left than this margin, twice the longest
  /// of the last saves and twice the longest of the last steps: before the last save another one,
  /// which is pending or due, may have to end.
  double margin_seconds = 30;
  /// The name of a file in the checkpoint directory. Rank 0 looks for it at most every
  /// look_seconds, and removes it when ranks have agreed to stop for it, so that the next job does
  /// not stop. Empty: no file.
  std::string file = "STOP";
  double look_seconds = 10;

  /// Members by name, as cairn/options.hpp says.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [signals, time_limit, end_seconds, reask_seconds, tool_seconds, margin_seconds, file,
           look_seconds] = self;
    options.own("signals", signals);
    options.own("time_limit", time_limit);
    options.own("end_seconds", end_seconds);
    options.own("reask_seconds", reask_seconds);
    options.own("tool_seconds", tool_seconds);
    options.own("margin_seconds", margin_seconds);
    options.own("file", file);
    options.own("look_seconds", look_seconds);
  }
};

/// The requests to this rank to stop. Make one at the beginning of the program, after MPI_Init, so
/// that early signals count, and give it to managers as WhenOptions::stop: in their should_stop()
/// all ranks agree. A process may have any number of these objects; each knows the signals that
/// came since it was made.
///
/// The signal handler sets a lock-free flag, then calls the handler that was there before, plain or
/// SA_SIGINFO; nothing else. System calls are restarted. When the last StopRequest for a signal
/// ends, it restores the earlier handler, unless another one has been installed meanwhile. That one
/// may still call ours, which then does what the signal did before, including the default action.
/// The same holds in forked children, until they make a StopRequest of their own.
class StopRequest {
 public:
  /// Not collective. Throws invalid_argument for signals that cannot be caught, negative numbers,
  /// or a file that is no plain name.
  explicit StopRequest(StopOptions options = {});
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The application asks to stop. On any rank, any thread; also in a signal handler.
  void request() noexcept;
  /// Does what the arrival of the signal does, for programs that receive signals in another way
  /// (sigwait, signalfd). Any thread; also in a signal handler.
  void note_signal(int signal) noexcept;

  /// Whether the application on this rank has called request(). Any thread.
  bool requested() const noexcept;
  int signal() const noexcept;  ///< the lowest number of those that came; 0: none
  const StopOptions& options() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
