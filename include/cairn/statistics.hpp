#pragma once
/// What saves cost: in the manager that made them, and in the checkpoints themselves.
#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

/// Seconds in the stages of a save. In an asynchronous one all from `write` on happen while the
/// application computes, and time in which a save only waits for a collective call is in none.
struct StageSeconds {
  double wait = 0;     ///< for the saves before it
  double plan = 0;     ///< who writes what, and the temp directory; or whether the last plan fits
  double capture = 0;  ///< the copy of an asynchronous save
  double write = 0;    ///< data files and part records, synced; replicas are compared
  double protect = 0;  ///< parity, of a checkpoint on the nodes
  double merge = 0;    ///< the entries of all ranks become one index
  double commit = 0;   ///< index written, renames, state file
  double tidy = 0;     ///< retention; of an asynchronous save 0 until it is done
  double sum() const { return wait + plan + capture + write + protect + merge + commit + tidy; }
};

/// Ranks that follow each other, together.
struct RankShare {
  std::int64_t bytes = 0;    ///< of all of them
  double write_seconds = 0;  ///< the longest of any of them
};

/// One save. On rank 0 it is over all ranks: sums of bytes and files, and the longest time that any
/// rank spent in a stage or in the call; so the stages may add up to more than the whole. Other
/// ranks have what they did themselves.
struct SaveStatistics {
  std::int64_t step = 0;
  bool asynchronous = false;
  bool on_nodes = false;            ///< it went there; its times are this rank's, on rank 0 too
  std::string blocking_because;     ///< why save_async blocked, as save() does; empty: it did not
  bool plan_reused = false;         ///< the plan of the save before it served again
  std::int64_t bytes = 0;           ///< written to data files
  std::int64_t replica_bytes = 0;   ///< held by more ranks than one, and not written again; rank 0
  std::int64_t gap_bytes = 0;       ///< of sparse tensors, that no rank holds; rank 0
  std::int64_t files = 0;           ///< data files; rank 0
  std::int64_t recycled_files = 0;  ///< of these, that overwrote what an older checkpoint had left
  /// The most memory that the process, the program's and Cairn's together, has had in RAM from its
  /// start up to the merge; on rank 0 the most of any rank. 0: not known.
  std::int64_t peak_resident_bytes = 0;
  double blocked_seconds = 0;  ///< how long save() or save_async() held the caller
  double total_seconds = 0;    ///< from the call until the commit was known
  StageSeconds seconds;
  /// The rank that was longest in `write`, and by how much it was longer there than the first: what
  /// others waited for.
  struct Slowest {
    int rank = -1;  ///< -1: not known, as on other ranks than 0
    double waiting_seconds = 0;
  };
  Slowest slowest = {};
  /// What ranks wrote, in rank order: of 256 ranks and fewer one a rank, of more ranks each of so
  /// many neighbours. Rank 0; empty on other ranks, and where it was not noted.
  std::vector<RankShare> shares = {};

  double gigabytes_per_second() const {  ///< effective: 10^9 bytes durable in a second of the whole
    return total_seconds > 0 ? static_cast<double>(bytes) / 1e9 / total_seconds : 0;
  }
};

/// Of all saves of one manager.
struct Statistics {
  std::int64_t committed = 0;
  std::int64_t failed = 0;    ///< save() threw, or a pending save came to nothing
  std::int64_t skipped = 0;   ///< WhenBusy::skip
  std::int64_t replaced = 0;  ///< WhenBusy::replace
  std::int64_t asynchronous = 0, plans_reused = 0;   ///< of the committed ones
  std::int64_t bytes = 0;                            ///< of the committed ones
  double blocked_seconds = 0;                        ///< of the committed ones
  std::int64_t pool_bytes = 0, pool_most_bytes = 0;  ///< this rank's memory for copies; its most
  std::vector<SaveStatistics> last;                  ///< committed ones, at most 16, oldest first
  std::int64_t on_nodes = 0;  ///< of the committed ones; one that was flushed counts again
  /// Work at risk: since the last save began that this manager committed anywhere, which is lost
  /// with a process, and at home, which is lost with all nodes; -1: there was none.
  double since_save_seconds = -1, since_home_seconds = -1;
};

}  // namespace cairn
