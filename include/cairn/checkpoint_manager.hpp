#pragma once
/// Numbered checkpoints of one job in one directory.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "cairn/options.hpp"
#include "cairn/path_text.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/statistics.hpp"
#include "cairn/stop.hpp"

namespace cairn {

struct StepInfo {
  std::int64_t step = 0;
  std::int64_t sequence = 0;
  bool newest = false;
  bool superseded = false;  ///< a run went on from an earlier step
  std::string damage;       ///< how it is damaged; empty: no damage is known
  bool pinned = false;
  std::string passed_over;                      ///< why restore_latest skips it; empty: it does not
  std::optional<double> metric = std::nullopt;  ///< the metric that its save was given
  /// Where it can be restored from: the nodes of a tier (cairn/tier.hpp), the manager's directory.
  bool on_nodes = false, at_home = true;
  int margin = 0;  ///< on the nodes: so many more nodes of any set may be lost
};

/// All members but statistics(), write_trace(), directory() and the destructor are collective:
/// every rank of the group calls them with the same arguments, from the thread that may call MPI.
/// While one thread is in such a call, a call of another thread throws busy. In a forked process
/// they throw invalid_argument, and the destructor does nothing. They throw on all ranks or on
/// none, with the same Error. Ranks that are in different calls get disagreement; cairn/log.hpp
/// sets how long a rank waits for one that is in no call. A failed save leaves older checkpoints
/// whole and the manager usable. The destructor is not collective and only gives up the directory.
class CheckpointManager {
 public:
  /// Makes the directory if it is missing, becomes its owner and recovers it: a save whose bytes
  /// were all durable is completed, other debris is removed. Throws busy when another job owns it.
  /// If the disk has no room for that, but a checkpoint to restore, the manager can restore it;
  /// saves fail with no_space until there is room.
  CheckpointManager(std::shared_ptr<Group> group, PathText directory, ManagerOptions options = {});
  ~CheckpointManager();
  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;

  /// Writes the state and commits it. On return it is durable under NAME-STEP. Returns the prefix.
  /// Throws already_exists for a step that exists, unless it is damaged or superseded, or the
  /// options say overwrite.
  std::string save(std::int64_t step, const State& state, const SaveOptions& options = {});

  /// Copies the state and returns: the application may write its arrays again. Each rank then
  /// writes its bytes without the others. Once the bytes of all ranks are durable, a restart
  /// completes the save, whatever happens to the job (in an object store: see
  /// docs/object-stores.md). The next call of the manager that saves, polls, waits or reads
  /// checkpoints commits it. Such a call waits for the bytes, except poll, and except save_async,
  /// which does what AsyncOptions::when_busy says.
  /// The checkpoint is then like any other. Errors in the state or the directory are thrown here,
  /// as by save(); later errors are in the handle and in the log, and a later call throws them. The
  /// destructor waits for the bytes and commits nothing: an error in the log names the save that
  /// only a restart completes, and, on a rank where it has failed, the reason.
  SaveHandle save_async(std::int64_t step, const State& state, const SaveOptions& options = {});
  /// Advances the pending saves as far as possible without waiting for bytes. Returns true if none
  /// is pending. It also advances the flush from the nodes to the directory
  /// (TierOptions::flush_bytes_per_second), which does not count as pending.
  bool poll();
  /// Returns when no save is pending and none is on its way from the nodes to the directory. With
  /// Reach::home the newest save of this manager is in its directory then: it is copied there from
  /// the nodes without a limit of speed, and a failure of this copy is thrown.
  void wait(Reach = Reach::any);

  /// Returns whether to save now. Also true when should_stop() has given a reason and nothing was
  /// saved since. False for the step that was saved or restored last; a save that failed while
  /// pending does not count as saved. After a restore the interval counts from the restored step,
  /// whatever was due before. A save that is due by the clock stays due until this function has
  /// returned true or something was saved.
  ///
  /// Call should_save and should_stop in every step, in any order. Together they cost one tiny
  /// reduction over ranks per step, which begins in one step and completes in the next while the
  /// application goes on. So what a rank knows (a signal, the clock) when it asks for the k-th time
  /// decides the answer to the next question, which is the same on all ranks, at the same step.
  /// Only SaveInterval::steps can make the first answer yes. These calls also commit a pending save
  /// whose bytes are all durable.
  bool should_save(std::int64_t step);
  /// Returns the reason to stop, or nothing: go on. Once there is a reason, every later call
  /// returns it.
  std::optional<StopReason> should_stop();

  /// Restores the newest whole checkpoint, or else, with a warning, the newest that lacks only its
  /// metadata (docs/state.md). Returns nothing if there is no checkpoint; throws if there are only
  /// damaged ones. Skips, with a message in the log, steps that are marked bad and, while there is
  /// an older one, steps that runs have restored without a newer commit (RestartOptions::tries).
  std::optional<RestoreReport> restore_latest(State& state, const RestoreOptions& options = {});
  /// Restores this step. Warns if the checkpoint lacks its metadata, since nothing else in it
  /// proves its step. Later saves supersede the steps after it.
  RestoreReport restore(std::int64_t step, State& state, const RestoreOptions& options = {});

  /// Returns what a checkpoint holds, so that the program can allocate memory for it.
  CheckpointContents open(std::int64_t step);
  /// Collective. Ascending by commit sequence: the last is the newest.
  std::vector<StepInfo> steps();

  /// A pinned checkpoint is not removed and not saved over until it is unpinned. The pin is durable
  /// on return. Another process may do the same at any time: `cairn pin`. A checkpoint that is only
  /// on the nodes is copied to the directory first. Throws not_found if there is no such step.
  void pin(std::int64_t step);
  /// Throws not_found if there is neither such a step nor a pin.
  void unpin(std::int64_t step);
  /// Says whether restore_latest may take a step. The mark is durable on return. It counts for this
  /// checkpoint only, not for a later save of the same step. Another process may do the same at any
  /// time: `cairn mark`. A checkpoint that is only on the nodes is copied to the directory first.
  /// Throws not_found if there is no such step.
  void mark(std::int64_t step, StepMark mark);
  /// What retention would do now or, with a step, after a save of that step; in commit order.
  std::vector<RetentionDecision> preview_retention(
      std::optional<std::int64_t> next_step = std::nullopt, const SaveOptions& next = {});

  PathText directory() const;

  /// What this rank knows about the saves of this manager; rank 0 knows about all ranks. Not
  /// collective.
  Statistics statistics() const;
  /// Not collective. Writes this rank's trace up to here. Throws invalid_argument without
  /// ManagerOptions::trace.
  void write_trace() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
