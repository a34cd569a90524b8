#pragma once
/// What saves cost. A manager has these numbers for its saves, and each checkpoint stores its own.
#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

/// Seconds in the stages of a save. In an asynchronous save `write`, `commit` and `tidy` happen
/// while the application computes, and `merge` in its next collective call that finds all written;
/// the waiting for that call is in no stage. Stages in which ranks send messages include the
/// waiting for slower ranks.
struct StageSeconds {
  double wait = 0;  ///< for the saves before it: that they end or, if it is asynchronous, make way
  /// Plan who writes what, or check the last plan; then begin the save where it will be stored: its
  /// directory, or in a bucket the request that save_async waits for. In an asynchronous save the
  /// savers, too. After a failure for lack of room also what was tried before.
  double plan = 0;
  /// In an asynchronous save: copy the state (of tensors that stay where they are, take checksums),
  /// exchange the pieces of dense tensors, write frozen tensors, compare replicas. Else 0.
  double capture = 0;
  double write = 0;    ///< write and sync data files and part records; blocking: compare replicas
  double protect = 0;  ///< compute and write parity, for a checkpoint on the nodes
  double merge = 0;    ///< merge the entries of all ranks into one index
  double commit = 0;   ///< write the index, rename, write the state file
  double tidy = 0;     ///< retention; in an asynchronous save 0 until it is done
  double sum() const { return wait + plan + capture + write + protect + merge + commit + tidy; }
};

/// What some ranks with consecutive numbers wrote, together.
struct RankShare {
  std::int64_t bytes = 0;    ///< the sum over them
  double write_seconds = 0;  ///< the longest time of any of them
};

/// One save. A rank has its own numbers, but rank 0 has some over all ranks: of `bytes`,
/// `unchanged_bytes` and `recycled_files` the sum; of `wait`, `plan`, `capture`, `write` and, in an
/// asynchronous save, `blocked_seconds` the longest of any rank. So these are equal to those of the
/// rank that was the slowest, and stages may add up to more than the whole. What is marked "rank 0"
/// is 0, -1 or empty elsewhere.
struct SaveStatistics {
  std::int64_t step = 0;
  bool asynchronous = false;
  /// It went to the nodes: on every rank times are its own, and `bytes` those of all ranks.
  bool on_nodes = false;
  std::string blocking_because;      ///< why save_async blocked as save() does; empty: it did not
  bool plan_reused = false;          ///< it reused the plan of the save before
  std::int64_t bytes = 0;            ///< written to data files
  std::int64_t replica_bytes = 0;    ///< bytes of replicas that were not written; rank 0
  std::int64_t gap_bytes = 0;        ///< bytes of sparse tensors that no rank holds; rank 0
  std::int64_t files = 0;            ///< data files; rank 0
  std::int64_t recycled_files = 0;   ///< of these, files of an older checkpoint that it overwrote
  std::int64_t unchanged_bytes = 0;  ///< that such files held already: not written
  /// The most memory in RAM that the process (the program and Cairn together) has had from its
  /// start up to the merge; on rank 0 the most of any rank. 0: not known.
  std::int64_t peak_resident_bytes = 0;
  /// How long save(), or save_async() and release(), held the caller; later calls do not count.
  double blocked_seconds = 0;
  double total_seconds = 0;  ///< from the call until the commit was known
  StageSeconds seconds;
  /// The rank that spent the longest time in `write`, and how much longer that was than the
  /// shortest: so long others waited.
  struct Slowest {
    int rank = -1;  ///< -1: not known; rank 0
    double waiting_seconds = 0;
  };
  Slowest slowest = {};
  /// What ranks wrote, in rank order: with up to 256 ranks one entry per rank, with more ranks one
  /// entry for several consecutive ranks. On rank 0; empty on other ranks, and if it was not noted.
  std::vector<RankShare> shares = {};

  double gigabytes_per_second() const {  ///< effective: 10^9 bytes per second of total_seconds
    return total_seconds > 0 ? static_cast<double>(bytes) / 1e9 / total_seconds : 0;
  }
};

/// The statistics of all saves of one manager. Counts are the same on all ranks; what has bytes or
/// seconds is this rank's, but `bytes` is the sum of SaveStatistics::bytes.
struct Statistics {
  std::int64_t committed = 0;
  std::int64_t failed = 0;                          ///< save() threw, or a pending save failed
  std::int64_t skipped = 0;                         ///< WhenBusy::skip
  std::int64_t replaced = 0;                        ///< WhenBusy::replace
  std::int64_t asynchronous = 0, plans_reused = 0;  ///< of the committed ones
  std::int64_t bytes = 0;                           ///< of the committed ones
  /// How long save(), save_async(), poll(), wait(), should_save(), should_stop() and release() have
  /// held this rank's callers, whatever became of the saves. release() counts once its save ends.
  double blocked_seconds = 0;
  std::int64_t pool_bytes = 0, pool_most_bytes = 0;  ///< this rank's memory for copies; its most
  std::vector<SaveStatistics> last;                  ///< committed ones, at most 16, oldest first
  std::int64_t on_nodes = 0;  ///< of the committed ones; a flushed one counts again
  /// Work at risk: the time since the last save began that this manager committed anywhere (this
  /// work is lost with a process), and in its directory (lost with all nodes). -1: there was none.
  double since_save_seconds = -1, since_home_seconds = -1;
};

}  // namespace cairn
