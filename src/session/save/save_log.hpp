#pragma once
/// Measures where the time of a save goes. Allocates nothing while a save is measured.
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "cairn/contents.hpp"
#include "cairn/statistics.hpp"
#include "session/save/trace.hpp"

namespace cairn {

using SaveTime = std::chrono::steady_clock::time_point;
inline double seconds_since(SaveTime begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds since 1970.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// When the application called, and why a save_async blocks.
struct SaveCall {
  SaveTime at = std::chrono::steady_clock::now();
  std::string why_blocking = "";
  SaveTime way = {};  ///< when no earlier save had to be waited for any more
};

/// Measures consecutive stages of a save on one thread. Adds the seconds of each to its member of
/// StageSeconds.
class StageTimer {
 public:
  using Stage = double StageSeconds::*;
  StageTimer(SaveStatistics& figures, Trace* trace, Trace::Thread thread, Stage first,
             SaveTime begin = std::chrono::steady_clock::now())
      : figures_(figures), trace_(trace), thread_(thread), stage_(first), begin_(begin) {}
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() { end(); }
  void next(Stage stage) {
    end();
    stage_ = stage;
  }
  void end();
  /// Called at the end of each stage, with its name, on the thread that ends it; null: nobody is
  /// told. For simulations, whose clocks are not the system's. Set it only while no save is
  /// measured.
  static inline void (*listener)(const char* stage, Trace::Thread) = nullptr;

 private:
  SaveStatistics& figures_;
  Trace* trace_;
  Trace::Thread thread_;
  // Null between two stages: then nothing is measured.
  Stage stage_;
  SaveTime begin_;
};

/// How many ranks share one element of SaveStatistics::shares, so that there are at most 256
/// elements.
int ranks_a_share(int ranks);

/// What ranks report of a save during the merge, beside their entries and their shares.
struct RankFigures {
  std::int64_t bytes = 0, replica_bytes = 0, recycled_files = 0, unchanged_bytes = 0,
               peak_resident_bytes = 0;
  double wait = 0, plan = 0, capture = 0, write = 0, blocked = 0;
  double least_write = 0;
  int slowest_rank = 0;

  static RankFigures of(const SaveStatistics&, int rank);
  void fold(const RankFigures& of_higher_ranks);
  void give(SaveStatistics& of_rank_0) const;
};

std::int64_t bytes_of(const std::vector<StoredTensor>&);

/// The line that the log gets for a save.
std::string line_of(const SaveStatistics&);

/// Keeps the figures of a manager's saves.
class SaveLog {
 public:
  /// `began`: when the save read the state.
  void committed(const CheckpointMeta&, const SaveStatistics&, SaveTime began);
  /// For a save on the nodes. Later checkpoints in the directory do not list it.
  void committed(std::int64_t sequence, const SaveStatistics&, SaveTime began);
  /// Rank 0: the run continues from this checkpoint and leaves `left_behind`, of which fewer
  /// figures may be known.
  void went_back_to(const CheckpointMeta&, const std::vector<PastSave>& left_behind);
  /// Rank 0, the caller's thread: the earlier saves that the next checkpoint lists.
  const std::vector<PastSave>& before() const { return before_; }
  /// Any thread, before or after committed(): how long the tidying of this save took.
  void tidied(std::int64_t sequence, double seconds);
  void failed() { ++counts_.failed; }
  void skipped() { ++counts_.skipped; }
  void replaced() { ++counts_.replaced; }
  /// A call has held the program so long.
  void held(double seconds) { counts_.blocked_seconds += seconds; }
  Statistics statistics() const;
  std::int64_t count() const { return counts_.committed; }  ///< how many saves were committed

 private:
  struct Entry {
    std::int64_t sequence = -1;
    SaveStatistics figures;
  };
  Statistics counts_;  // `last` stays empty
  std::vector<PastSave> before_;
  std::optional<SaveTime> last_, last_home_;  // when the last began: any; in the directory
  mutable Mutex mutex_;
  std::array<Entry, 16> ring_ CAIRN_GUARDED_BY(mutex_);
  std::int64_t tidied_ CAIRN_GUARDED_BY(mutex_) = -1;  // until committed() enters it
  double tidy_seconds_ CAIRN_GUARDED_BY(mutex_) = 0;
};

/// Counts how long a call of the application holds it, whatever comes of its save.
class HeldCaller {
 public:
  explicit HeldCaller(SaveLog& save_log) : save_log_(save_log) {}
  HeldCaller(const HeldCaller&) = delete;
  HeldCaller& operator=(const HeldCaller&) = delete;
  ~HeldCaller() { save_log_.held(seconds_since(begin_)); }

 private:
  SaveLog& save_log_;
  SaveTime begin_ = std::chrono::steady_clock::now();
};

/// Counts a save as failed unless done() is called.
class Attempt {
 public:
  explicit Attempt(SaveLog& save_log) : save_log_(save_log) {}
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    if (!done_) save_log_.failed();
  }
  void done() { done_ = true; }

 private:
  SaveLog& save_log_;
  bool done_ = false;
};

}  // namespace cairn
