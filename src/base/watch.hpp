#pragma once
/// Watches how long ranks wait for each other: reports long waits with the missing ranks, and ends
/// the job after a limit. A rank notes in a few atomics what it waits for and since when; one
/// thread of the process reads these notes, and calls no MPI.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cairn/log.hpp"

namespace cairn {

/// "rank 3", "ranks 0-4, 7", and at most eight such pieces. Ranks ascend.
std::string ranks_text(const std::vector<int>& ranks);

/// A wait, as it is reported.
struct WaitTold {
  int rank = 0, ranks = 1;
  double seconds = 0;
  const char* call = nullptr;   ///< name in the public interface; null: not known
  std::string object = "";      ///< the object that the call is a member of
  const char* stage = nullptr;  ///< null: the ranks have not met in this call yet
  int peer = -1;                ///< the only rank that is waited for; -1: not known
  std::vector<int> awaited = {};
};
std::string wait_text(const WaitTold&);

/// Whether the rank of this number reports its waits: rank 0 and powers of two do.
bool speaks_of_waits(int rank);

/// Decides whether a wait of this length is reported, or ends the job. Pure, except that it
/// remembers when the wait was last reported.
class Patience {
 public:
  enum class Verdict { none, tell, end };
  Verdict judge(double seconds, const WaitLimits&, bool speaks);
  void begin_anew() { told_ = 0; }

 private:
  double told_ = 0;  // how long the wait had lasted when it was last reported
};

/// A rank whose waits are watched while this lives. begin and end are for the rank's own thread;
/// they allocate nothing and wait for nobody.
class WatchedRank {
 public:
  /// `awaited` may be called from another thread at any time.
  WatchedRank(int rank, int ranks, std::function<std::vector<int>()> awaited);
  ~WatchedRank();
  WatchedRank(const WatchedRank&) = delete;
  WatchedRank& operator=(const WatchedRank&) = delete;

  void describe(std::string object);
  const char* call() const { return call_.load(std::memory_order_relaxed); }
  void call(const char* name) { call_.store(name, std::memory_order_relaxed); }

  /// `stage` is a literal; null: the rank waits for the others to make this call.
  void begin(const char* stage, int peer = -1) noexcept;
  void end();

  /// Called by the watch: the wait, if it is to be reported or to end the job.
  std::optional<WaitTold> check(std::chrono::steady_clock::time_point now, Patience::Verdict&,
                                const WaitLimits&);

 private:
  const int rank_, ranks_;
  const std::function<std::vector<int>()> awaited_;
  std::string object_;  // guarded by the watch's mutex
  std::atomic<const char*> call_ = nullptr, stage_ = nullptr;
  std::atomic<int> peer_ = -1;
  std::atomic<std::int64_t> since_ = 0;  // steady nanoseconds; 0: no wait
  std::atomic<std::int64_t> told_ = 0;   // the `since_` of the wait that was reported
  std::int64_t seen_ = 0;                // used by the watch only
  Patience patience_;                    // used by the watch only
};

/// The rank waits while this lives. If this thread already waits, the outer Waiting says more, and
/// this one does nothing.
class Waiting {
 public:
  Waiting(WatchedRank&, const char* stage, int peer = -1) noexcept;
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  WatchedRank* rank_ = nullptr;  // null: an outer Waiting is active
};

}  // namespace cairn
