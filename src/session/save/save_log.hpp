#pragma once
/// Where the time of a save goes. Nothing here allocates while a save is measured.
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

/// Since 1970.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// When the application called, and why a save_async blocks.
struct SaveCall {
  SaveTime at = std::chrono::steady_clock::now();
  std::string why_blocking = "";
  SaveTime way = {};  ///< when no earlier save was in the way any more
};

/// Measures stages of a save that follow each other on one thread, and adds the seconds of each to
/// its member of StageSeconds.
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
  /// Told of the end of each stage, by its name, on the thread that ends it; null: nobody. Set
  /// while no save is measured: for simulations, where clocks are others than the system's.
  static inline void (*listener)(const char* stage, Trace::Thread) = nullptr;

 private:
  SaveStatistics& figures_;
  Trace* trace_;
  Trace::Thread thread_;
  Stage stage_;
  SaveTime begin_;
};

/// How many ranks make up one of SaveStatistics::shares, so that there are at most 256.
int ranks_a_share(int ranks);

/// What ranks tell of a save at the merge, beside their entries and their shares.
struct RankFigures {
  std::int64_t bytes = 0, replica_bytes = 0, recycled_files = 0, peak_resident_bytes = 0;
  double wait = 0, plan = 0, capture = 0, write = 0, blocked = 0;
  double least_write = 0;
  int slowest_rank = 0;

  static RankFigures of(const SaveStatistics&, int rank);
  void fold(const RankFigures& of_higher_ranks);
  void give(SaveStatistics& of_rank_0) const;
};

std::int64_t bytes_of(const std::vector<StoredTensor>&);

/// The line for the log.
std::string line_of(const SaveStatistics&);

/// Keeps the figures of a manager's saves.
class SaveLog {
 public:
  /// `began`: when the state was looked at.
  void committed(const CheckpointMeta&, const SaveStatistics&, SaveTime began);
  /// One that is not in the directory, whose later checkpoints do not tell of it.
  void committed(std::int64_t sequence, const SaveStatistics&, SaveTime began);
  /// Rank 0: the run goes on from this checkpoint, and leaves these behind, of which less may be
  /// known.
  void went_back_to(const CheckpointMeta&, const std::vector<PastSave>& left_behind);
  /// Rank 0: what the next save follows. The caller's thread.
  const std::vector<PastSave>& before() const { return before_; }
  /// Any thread, before or after committed().
  void tidied(std::int64_t sequence, double seconds);
  void failed() { ++counts_.failed; }
  void skipped() { ++counts_.skipped; }
  void replaced() { ++counts_.replaced; }
  Statistics statistics() const;
  std::int64_t count() const { return counts_.committed; }  ///< of the committed ones

 private:
  struct Entry {
    std::int64_t sequence = -1;
    SaveStatistics figures;
  };
  Statistics counts_;  // `last` stays empty
  std::vector<PastSave> before_;
  std::optional<SaveTime> last_, last_home_;  // when they began
  mutable Mutex mutex_;
  std::array<Entry, 16> ring_ CAIRN_GUARDED_BY(mutex_);
  std::int64_t tidied_ CAIRN_GUARDED_BY(mutex_) = -1;  // not entered yet
  double tidy_seconds_ CAIRN_GUARDED_BY(mutex_) = 0;
};

/// A save that ends otherwise than by done() has failed.
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
