#include "base/watch.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// The ranks of this process, and the thread that checks them. Never destroyed: the thread may
/// still run when the statics of this file are gone.
class Watch {
 public:
  static Watch& instance() {
    static auto* const watch = new Watch;
    return *watch;
  }

  void add(WatchedRank* rank) {
    const MutexLock guard(mutex);
    ranks_.push_back(rank);
    start();
  }
  void remove(WatchedRank* rank) {
    const MutexLock guard(mutex);
    std::erase(ranks_, rank);
  }
  void set(const WaitLimits& limits) {
    const MutexLock guard(mutex);
    limits_ = limits;
    ++changes_;
    start();
    changed_.notify_all();
  }
  WaitLimits limits() {
    const MutexLock guard(mutex);
    return limits_;
  }

  // Guards the list of ranks, the limits, and the descriptions in WatchedRank.
  Mutex mutex;

 private:
  // Starts the thread if this process has none: a forked child has the memory, but not the thread.
  void start() CAIRN_REQUIRES(mutex) {
    if (runs_in_ == getpid() || ranks_.empty()) return;
    if (limits_.log_seconds <= 0 && limits_.end_seconds <= 0) return;
    sigset_t all, before;
    // The new thread inherits the mask of this one.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals go to the application's threads
    try {
      std::thread([this] { run(); }).detach();
      runs_in_ = getpid();
    } catch (const std::exception&) {  // nobody watches; the next rank that is added tries again
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // How often to check, so that a wait is reported at most a quarter of its limit late.
  std::chrono::nanoseconds period() const CAIRN_REQUIRES(mutex) {
    double shortest = 20;
    for (const double limit : {limits_.log_seconds, limits_.end_seconds}) {
      if (limit > 0) shortest = std::min(shortest, limit);
    }
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::max(shortest / 4, 0.002) * 1e9));
  }

  [[noreturn]] void run() {
    for (MutexLock lock(mutex);;) {
      const auto before = changes_;
      // Wakes early if the limits change.
      const auto until = Clock::now() + period();
      while (changes_ == before && lock.wait_until(changed_, until) == std::cv_status::no_timeout) {
      }
      std::vector<std::string> told;
      std::optional<std::string> end;
      const auto now = Clock::now();
      for (auto* rank : ranks_) {
        auto verdict = Patience::Verdict::none;
        const auto wait = rank->check(now, verdict, limits_);
        if (!wait) continue;
        if (verdict == Patience::Verdict::tell) told.push_back(wait_text(*wait));
        if (verdict == Patience::Verdict::end && !end) end = wait_text(*wait);
      }
      lock.unlock();  // a log sink may use the library
      for (const auto& text : told) log(LogLevel::warning, text);
      if (end) {
        tell_fatal(cat("the job ends: ", *end, " (WaitLimits::end_seconds is ",
                       limits().end_seconds, ")"));
        // Not std::exit(): it would run destructors while the application's threads still run.
        std::_Exit(EXIT_FAILURE);
      }
      lock.lock();
    }
  }

  std::vector<WatchedRank*> ranks_ CAIRN_GUARDED_BY(mutex);
  WaitLimits limits_ CAIRN_GUARDED_BY(mutex);
  // How often the limits were set; the thread waits for another number.
  std::uint64_t changes_ CAIRN_GUARDED_BY(mutex) = 0;
  std::condition_variable changed_;
  // The process whose thread watches; 0: there is none yet.
  pid_t runs_in_ CAIRN_GUARDED_BY(mutex) = 0;
};

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr int most = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  int pieces = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (pieces++ == most) return text + ", …";
    if (pieces > 1) text += ", ";
    text += cat(ranks[i]);
    if (last > i) text += cat(last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string wait_text(const WaitTold& wait) {
  const bool known = wait.peer >= 0 || !wait.awaited.empty();
  const auto whom = wait.peer >= 0 ? cat("rank ", wait.peer)
                    : known        ? ranks_text(wait.awaited)
                                   : "other ranks";
  auto text = cat("rank ", wait.rank, " of ", wait.ranks, " has waited ",
                  std::llround(wait.seconds * 10) / 10.0, " s in ",
                  wait.call ? wait.call : "a collective call", wait.object);
  if (!wait.stage) {
    return cat(text, " for ", whom, " to make the same call",
               known ? "" : ": they are at something else, or have ended");
  }
  const bool one = wait.peer >= 0 || wait.awaited.size() == 1;
  return cat(text, ", ", wait.stage, ", for ", whom,
             !wait.call ? ""
             : one      ? ", which is in this call too, at its part of it"
                        : ", which are in this call too, at their part of it");
}

bool speaks_of_waits(int rank) { return (rank & (rank - 1)) == 0; }

Patience::Verdict Patience::judge(double seconds, const WaitLimits& limits, bool speaks) {
  // Ranks that report no waits allow some more time, so that a rank that does report ends the job
  // first. If none does, they end it.
  const double end = limits.end_seconds + (speaks ? 0 : std::min(limits.end_seconds / 10, 10.0));
  if (limits.end_seconds > 0 && seconds >= end) return Verdict::end;
  if (!speaks || limits.log_seconds <= 0) return Verdict::none;
  // Each report of a wait comes after twice the time of the one before.
  if (seconds < std::max(limits.log_seconds, 2 * told_)) return Verdict::none;
  told_ = seconds;
  return Verdict::tell;
}

WatchedRank::WatchedRank(int rank, int ranks, std::function<std::vector<int>()> awaited)
    : rank_(rank), ranks_(ranks), awaited_(std::move(awaited)) {
  if (ranks > 1) Watch::instance().add(this);  // a single rank waits for nobody
}

WatchedRank::~WatchedRank() { Watch::instance().remove(this); }

void WatchedRank::describe(std::string object) {
  const MutexLock guard(Watch::instance().mutex);
  object_ = std::move(object);
}

// `since_` is stored last: a watch that sees it sees this wait's stage and peer, or later ones.
void WatchedRank::begin(const char* stage, int peer) noexcept {
  stage_.store(stage, std::memory_order_relaxed);
  peer_.store(peer, std::memory_order_relaxed);
  since_.store(nanoseconds(Clock::now()), std::memory_order_release);
}

void WatchedRank::end() {
  const auto since = since_.exchange(0, std::memory_order_acq_rel);
  // Only a wait that was reported is worth a message when it ends.
  if (since == 0 || told_.load(std::memory_order_relaxed) != since) return;
  const auto* call = this->call();
  const auto seconds = static_cast<double>(nanoseconds(Clock::now()) - since) / 1e9;
  log(LogLevel::warning, cat("rank ", rank_, " goes on in ", call ? call : "a collective call",
                             " after ", std::llround(seconds * 10) / 10.0, " s"));
}

namespace {
// Whether a Waiting is active on this thread.
thread_local bool thread_waits = false;
}  // namespace

Waiting::Waiting(WatchedRank& rank, const char* stage, int peer) noexcept {
  if (std::exchange(thread_waits, true)) return;
  rank_ = &rank;
  rank_->begin(stage, peer);
}

Waiting::~Waiting() {
  if (!rank_) return;
  thread_waits = false;
  rank_->end();
}

// If a wait ends during this check, the report may have the stage of the next wait. No more than a
// message is wrong then.
std::optional<WaitTold> WatchedRank::check(Clock::time_point now, Patience::Verdict& verdict,
                                           const WaitLimits& limits) {
  const auto since = since_.load(std::memory_order_acquire);
  if (since == 0) return std::nullopt;
  // Another start is another wait.
  if (std::exchange(seen_, since) != since) patience_.begin_anew();
  const auto seconds = static_cast<double>(nanoseconds(now) - since) / 1e9;
  verdict = patience_.judge(seconds, limits, speaks_of_waits(rank_));
  if (verdict == Patience::Verdict::none) return std::nullopt;
  told_.store(since, std::memory_order_relaxed);
  return WaitTold{rank_,
                  ranks_,
                  seconds,
                  call(),
                  object_,
                  stage_.load(std::memory_order_relaxed),
                  peer_.load(std::memory_order_relaxed),
                  awaited_ ? awaited_() : std::vector<int>()};
}

void set_wait_limits(const WaitLimits& limits) {
  if (!(limits.log_seconds >= 0) || !(limits.end_seconds >= 0)) {
    throw Error(Code::invalid_argument, "a number in WaitLimits is negative, or none",
                cat("log_seconds ", limits.log_seconds, ", end_seconds ", limits.end_seconds),
                "0 means never.");
  }
  Watch::instance().set(limits);
}

WaitLimits wait_limits() { return Watch::instance().limits(); }

}  // namespace cairn
