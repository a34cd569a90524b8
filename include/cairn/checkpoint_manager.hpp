#pragma once
/// Numbered checkpoints of one job in one directory.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "cairn/options.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/statistics.hpp"
#include "cairn/stop.hpp"

namespace cairn {

struct StepInfo {
  std::int64_t step = 0;
  std::int64_t sequence = 0;
  bool newest = false;
  bool superseded = false;  ///< a restore to an earlier step has left it behind
  std::string damage;       ///< why it was found damaged; empty: not known to be
  bool pinned = false;
  std::string passed_over;  ///< why restore_latest passes it over; empty: it does not
  std::optional<double> metric = std::nullopt;  ///< as given at the save
  /// Of a manager with a tier (cairn/tier.hpp): where it can be had.
  bool on_nodes = false, at_home = true;
  int margin = 0;  ///< on the nodes: how many more of any set may be lost
};

/// All members but statistics(), write_trace(), directory() and the destructor are collective:
/// every rank of the group calls them with the same arguments, from the thread that may call MPI.
/// While one thread is in such a call, another one gets busy; a forked process invalid_argument,
/// and its destructor does nothing.
/// They throw on all ranks or on none, with the same Error; ranks that are in different calls get
/// disagreement, and how long a rank waits for one that is in none is set in cairn/log.hpp. A
/// failed save leaves older checkpoints whole and the manager usable. The destructor is not
/// collective and only gives up the directory.
class CheckpointManager {
 public:
  /// Makes the directory if it is missing, becomes its owner and recovers it: a save whose bytes
  /// were all durable is completed, other debris is removed. Throws busy when another job owns it.
  /// Where there is no room for that, and something to restore, the manager restores; saves fail
  /// with no_space until there is some.
  CheckpointManager(std::shared_ptr<Group> group, std::filesystem::path directory,
                    ManagerOptions options = {});
  ~CheckpointManager();
  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;

  /// Writes the state and commits it. On return it is durable under NAME-STEP. Returns the prefix.
  /// A step that exists is an error unless it is damaged or superseded, or options say overwrite.
  std::string save(std::int64_t step, const State& state, const SaveOptions& options = {});

  /// Copies the state and returns: the application may write its arrays again. Each rank then
  /// writes its bytes without the others. Once the bytes of all ranks are durable, a restart
  /// completes the save, whatever happens to the job. The next call here that saves, polls, waits
  /// or looks commits it; such a call waits for the bytes, except poll, and except save_async,
  /// which does what AsyncOptions::when_busy says. The checkpoint is then like any other. Errors in
  /// the state or the directory are thrown here, as by save(); later errors are in the handle and
  /// in the log, and a later call throws them. The destructor waits for the bytes and commits
  /// nothing: the log is told, as of an error, what only a restart completes, and on a rank where
  /// it has failed, why.
  SaveHandle save_async(std::int64_t step, const State& state, const SaveOptions& options = {});
  /// Takes the pending saves as far as they go without waiting for bytes. True: none is
  /// pending. What goes home from the nodes (TierOptions::flush_bytes_per_second) goes on,
  /// too, and is not counted.
  bool poll();
  /// Returns when nothing is pending, nor on its way from the nodes. With Reach::home the newest
  /// save of this manager is in its directory then, too, brought there from the nodes without a
  /// limit; what fails in that is thrown.
  void wait(Reach = Reach::any);

  /// Whether to save now. Also true when should_stop() says yes and nothing was saved since. False
  /// for the step that was saved or restored last; a save that failed while pending does not count
  /// as saved. After a restore the interval counts from the restored step, whatever was due before.
  /// A save that is due by the clock stays due until this has returned true, or something was
  /// saved.
  ///
  /// These two belong into every step, in any order; together they cost one tiny reduction over
  /// ranks a step, which is begun in one step and completed in the next, while the application goes
  /// on. So what a rank knows at its k-th question (a signal, the clock) decides the answer to the
  /// k+1-th, which is the same on all ranks, at the same step. The answer to the first question is
  /// yes only because of SaveInterval::steps. These calls also commit a pending save whose bytes
  /// are all durable.
  bool should_save(std::int64_t step);
  /// Why to stop; nothing: go on. Once there is a reason, every later call returns it.
  std::optional<StopReason> should_stop();

  /// Restores the newest whole checkpoint, or else, with a warning, the newest that lacks only its
  /// metadata (docs/state.md). Returns nothing if there is no checkpoint; throws if there are only
  /// damaged ones. Passes over, aloud, steps that are marked bad, and those from which runs have
  /// not got anywhere (RestartOptions::tries) while there is an older one.
  std::optional<RestoreReport> restore_latest(State& state, const RestoreOptions& options = {});
  /// Restores this step; without metadata, which alone say which step it is, with a warning. Later
  /// saves supersede the steps after it.
  RestoreReport restore(std::int64_t step, State& state, const RestoreOptions& options = {});

  /// Looks inside a checkpoint, before anything is allocated.
  CheckpointContents open(std::int64_t step);
  /// Collective. Ascending by commit sequence: the last is the newest.
  std::vector<StepInfo> steps();

  /// A pinned checkpoint is not removed and not saved over until it is unpinned. Durable on return.
  /// Another process may do the same at any time: `cairn pin`. One that is on the nodes alone is
  /// brought to the directory first. Throws not_found without such a step.
  void pin(std::int64_t step);
  /// Throws not_found if there is neither such a step nor a pin.
  void unpin(std::int64_t step);
  /// What restore_latest is to do about a step from now on. Durable on return; the mark goes with
  /// the checkpoint. Another process may do the same at any time: `cairn mark`. One that is on the
  /// nodes alone is brought to the directory first. Throws not_found without such a step.
  void mark(std::int64_t step, StepMark mark);
  /// What retention would do now, in commit order; with a step, after a save of it.
  std::vector<RetentionDecision> preview_retention(
      std::optional<std::int64_t> next_step = std::nullopt, const SaveOptions& next = {});

  const std::filesystem::path& directory() const;

  /// What this rank knows of the saves of this manager; rank 0 knows of all ranks. Not collective.
  Statistics statistics() const;
  /// Not collective. Writes what was traced so far. Throws invalid_argument without
  /// ManagerOptions::trace.
  void write_trace() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
