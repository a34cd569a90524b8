#pragma once
/// The checkpoints of one name in one directory: the engine behind CheckpointManager and
/// Checkpoint.
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "commit/ownership.hpp"
#include "directory/catalog.hpp"
#include "directory/recycling.hpp"
#include "group/call_group.hpp"
#include "io/staging_pool.hpp"
#include "job/job.hpp"
#include "job/look.hpp"
#include "restore/restore.hpp"
#include "save/flight.hpp"
#include "save/measure.hpp"
#include "save/plan_cache.hpp"
#include "save/save_steps.hpp"
#include "schedule/turns.hpp"

namespace cairn {

/// Members marked collective are to be called under guarded(). What is said of the members of
/// CheckpointManager holds for those of the same name here.
struct Series {
  Job job;
  bool keeps_state_file = true;
  const char* options_name = "ManagerOptions";  // what the caller calls them, for errors
  std::string policy;                           // description
  std::uint64_t weight = 0;       // of this rank, in sums that tell whether ranks agree
  bool policy_is_known = true;    // by its parameters: the same ones shard alike
  std::int64_t replica_turn = 0;  // which sample of replicas is the next; rank 0's counts
  bool replicas_suspect = false;  // the last comparison found a difference
  // Rank 0 only.
  std::optional<commit::OwnedName> ownership;
  std::optional<Recycling> recycling;  // ends before the ownership
  std::vector<CatalogEntry> catalog;
  std::optional<std::int64_t> restored_step;
  std::int64_t head = -1;               // sequence of the checkpoint that the state descends from
  std::int64_t last_sequence = 0;       // failed saves use theirs up
  std::int64_t reserved_sequence = 0;   // up to here they are this owner's (commit/sequences.hpp)
  std::string unknown_sequences;        // what could not be read, so that none is safe to give
  std::set<std::int64_t> within_reach;  // steps that an earlier owner, should it live, may commit
  std::optional<commit::Transaction> unwithdrawn;  // failed, but recovery could still complete it
  std::optional<CheckpointMeta> origin;            // of a conversion: the save that is stored again

  Series(std::shared_ptr<Group> group, io::Path directory, commit::Naming naming,
         ManagerOptions options);
  ~Series();

  CallGroup& calls() const { return static_cast<CallGroup&>(*job.group); }
  // Collective, at the beginning of a call: saves in flight have a meeting of their own (advance),
  // and a save's sum for the plan is one.
  void meet() const {
    if (flights.empty()) calls().meet();
  }
  void meet_for_save() const;

  void open_directory();  // collective
  // collective
  std::string save(std::int64_t step, const State& state, const SaveOptions& = {},
                   const SaveCall& call = {});
  void call_before_save(std::int64_t step) const;  // collective
  void require_writable(const char* what) const;
  void write_state_file(const std::vector<CatalogEntry>&) const;

  using Prepared = cairn::Prepared;
  Prepared prepare(std::int64_t step, const FileLayout&);
  struct Begun {
    commit::Transaction save;
    std::int64_t sequence = 0;
  };
  Begun begin(std::int64_t step, const FileLayout&);
  void stand_for_origin(CheckpointMeta&) const;
  void require_step(std::int64_t step, const SaveOptions&) const;
  void require_not_pinned(const CatalogEntry*) const;
  ReplicaTurn turn() const;
  void compare(const State&, const ReplicaPlan&, const std::vector<std::uint32_t>& checksums,
               const Prepared&);
  // What the index is on disk.
  std::optional<io::FileId> publish(const Prepared&, const FileLayout&, std::vector<StoredTensor>,
                                    const std::optional<CatalogEntry>& there) const;
  [[noreturn]] void give_up(const Error&, const commit::Transaction&, bool committed);
  enum class Withdrawn { gone, not_ours, stays };
  Withdrawn withdraw(const commit::Transaction&, bool committed);
  void after_commit(const Prepared&, bool volatile_commit, const std::optional<io::FileId>&);
  // Rank 0 (sequences.cpp).
  void begin_sequences(const std::vector<std::string>& undecided);
  void require_sequence(std::int64_t step) const;
  std::int64_t next_sequence();
  bool has_next_sequence() const { return last_sequence < reserved_sequence; }
  void look_again();
  void read_again();
  bool knows_all() const;
  void tell_state_file(std::int64_t step, const std::vector<CatalogEntry>&) const;
  void tidy(const commit::Transaction&, std::vector<CatalogEntry>&) const;

  std::optional<CatalogEntry> copy_of(std::int64_t step) const;
  void require_free(std::int64_t step, std::int64_t bytes) const;
  Prepared prepared_of(std::int64_t step, std::string uuid, int num_files, std::int64_t sequence,
                       std::int64_t parent, double time) const;

  Ledger ledger;
  std::unique_ptr<Trace> trace;  // null: none is wanted
  void enter(std::int64_t sequence, const SaveStatistics&);
  void write_trace() const;

  // The last plan, for the next save (plan_cache.hpp). On all ranks, or where it cannot be.
  std::optional<CachedPlan> cached;
  std::shared_ptr<SavePlan> new_plan(const State& given, const State& resolved);  // collective
  bool reuse_plan(std::int64_t step, const Look&, const SaveOptions&, bool async,
                  PlanSum& sum);  // collective
  bool can_reuse(std::int64_t step, const State&, bool async);

  // Saves in flight (save_async.cpp, flights.cpp): at most one whose bytes are on their way, behind
  // at most one whose index is. The same on all ranks.
  std::vector<std::unique_ptr<Flight>> flights, landed;
  std::optional<Error> earlier_failure;  // of one of them, not thrown yet; the same on all ranks
  io::StagingPool pool;
  std::mutex tidied_mutex;
  std::vector<std::int64_t> tidied;  // rank 0: steps that a tidying in the background has removed
  // Rank 0, likewise: files that wait for the next save, durably so; -1: not known to.
  std::int64_t recycled_bytes = -1;
  std::shared_ptr<TaskQueue> queue;
  bool told_blocking = false;

  // collective
  SaveHandle save_async(std::int64_t step, const State& state, const SaveOptions& = {});
  SaveHandle save_again(std::int64_t step, const State&, const SaveOptions&, PlanSum&,
                        const SaveCall&);      // collective
  void advance(bool wait);                     // collective
  void settle();                               // collective: nothing is in flight after it
  void land(Flight&);                          // collective
  bool make_way();                             // collective
  std::string reserve(Flight&, const State&);  // collective; why it does not fit
  void capture_runs(Flight&, const State&);    // collective
  void choose_memory(const State&);
  std::string why_blocking() const;
  std::unique_ptr<Flight> new_flight(std::int64_t step, const SaveCall&);
  void begin_task(Flight&, void (Series::*task)(Flight&) const);
  void write_captured(Flight&) const;  // a task: any thread
  void publish_flight(Flight&) const;  // a task
  void name(Flight&) const;
  void join(Flight&) const;
  void begin_tidying(const Prepared&, int data_files, bool durable);
  void apply_tidied();
  void change(Flight&, SaveStage) const;
  void tell(const SaveHandle&) const;
  void throw_earlier_failure();
  void clear_way_for_last_save();  // collective

  // should_save and should_stop (turn/questions.cpp). A manager's only.
  std::unique_ptr<Turns> turns;
  void check_interval() const;
  std::string interval_text() const;  // all that ranks must agree on
  void take_turn(bool of_save);       // collective

  struct Choices {
    std::vector<std::int64_t> steps;
    std::vector<std::string> passed;  // "step: why"
  };
  Choices choose();
  bool changed_meanwhile(std::int64_t step);
  RestoreReport restore_step(std::int64_t step, State&, const RestoreOptions&, Touched* = nullptr);
  void remember_damage(std::int64_t step, const Error&);
  const CatalogEntry* find(std::int64_t step) const;
};

struct CheckpointManager::Impl : Series {
  using Series::Series;
};

}  // namespace cairn
