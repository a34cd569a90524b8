#pragma once
/// The checkpoints of one name in one directory: what CheckpointManager, Checkpoint, sharded_save
/// and the tools drive. Its parts are owners of their own; it calls them in the order of a save or
/// a restore, and does what takes all ranks.
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cairn/checkpoint_manager.hpp"
#include "group/call_group.hpp"
#include "session/flights.hpp"
#include "session/job/job.hpp"
#include "session/nodes/tier.hpp"
#include "session/restore/restore.hpp"
#include "session/save/frozen.hpp"
#include "session/save/measure.hpp"
#include "session/save/plans.hpp"
#include "session/schedule/turns.hpp"
#include "store/directory/directory.hpp"

namespace cairn {

struct Flush;

/// A damaged checkpoint can be passed over; a state that does not fit it cannot.
bool is_damage(const Error&);

double now_seconds();  ///< since 1970

struct RedistributeReport;

/// Members are called by the thread that may call MPI, under guarded(). Collective ones come first
/// in each part; what is local is marked. What is said of the members of CheckpointManager holds
/// for those of the same name.
class Engine {
 public:
  explicit Engine(Job);  ///< one of make_job(), not yet settled
  /// Not collective.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Job job;
  Directory directory;  // rank 0's
  Plans plans;
  Frozen frozen;
  std::unique_ptr<Trace> trace;  // null: none is wanted
  Ledger ledger;
  std::unique_ptr<Turns> turns;  // a manager's only
  tier::Tier nodes;              // checkpoints on them
  Flights flights;               // ends first: its tasks use what is above

  CallGroup& calls() const { return static_cast<CallGroup&>(*job.group); }
  /// At the beginning of a call: saves in flight have a meeting of their own (advance), and a
  /// save's sum for the plan is one.
  void meet() const {
    if (flights.empty()) calls().meet();
  }
  void meet_for_save() const;

  /// Checks the options, agrees on them, becomes the owner of the directory and recovers it. Where
  /// there is no room for that, one that may_only_restore is a reader until its next save.
  void open(bool may_only_restore = false);

  std::string save(std::int64_t step, const State&, const SaveOptions& = {}, const SaveCall& = {});
  SaveHandle save_async(std::int64_t step, const State&, const SaveOptions& = {});
  /// Moves saves in flight on as far as all ranks' tasks are done; or waits for these.
  void advance(bool wait);
  void settle() { advance(true); }  ///< nothing is in flight after it
  void throw_earlier_failure();
  void clear_way_for_last_save();
  void call_before_save(std::int64_t step) const;

  std::optional<RestoreReport> restore_latest(State&, const RestoreOptions&);
  RestoreReport restore(std::int64_t step, State&, const RestoreOptions&);

  /// Moves the flush on (flush.cpp), or brings it to its end, without a limit. What fails is thrown
  /// if `throws`, and otherwise said.
  void advance_flush(bool wait, bool throws = false);
  void cancel_flush();
  /// The newest save of this run is at home, or an error says why not. Nothing is in flight.
  void bring_newest_home();
  /// So is one of this step, if the nodes have a newer one than the directory; pinned.
  void bring_step_home(std::int64_t step);

  void add_steps_on_nodes(std::vector<StepInfo>&) const;  ///< local, the same on all ranks

  void take_turn(bool of_save);  ///< session/schedule/turns.hpp

  void require_writable(const char* what) const;  ///< local
  void write_trace() const;                       ///< local

 private:
  struct Request {
    std::int64_t step;
    const State& given;
    const SaveOptions& options;
    bool background;
    SaveCall& call;
  };
  struct Planned {
    std::shared_ptr<SavePlan> plan;
    std::shared_ptr<const Descriptions> descriptions = nullptr;
    bool again = false;  // it is the last save's
    std::optional<DraftId> id = std::nullopt;
    std::optional<State> resolved = std::nullopt;  // nothing: the state is saved as it was given
  };

  // Opening (open.cpp). Collective:
  void enter_directory();
  void become_reader(const Error& why);
  void own_after_all();

  // The stages of a save, in their order (save.cpp, begin_save.cpp, end_save.cpp). Collective:
  SaveHandle run(Request&);
  /// Nothing: it is to block, and why.
  std::optional<SaveHandle> try_save(const Request&, Attempt&, std::string& why);
  SaveHandle run_blocking(const Request&, const std::string& why);
  bool make_way();
  Sharding settle_policy(const SaveOptions&);
  Planned plan(const Request&, const Look&);
  PlanSum ask_for_plan(const Request&, const Look&, bool quick);
  void require_step(std::int64_t step, const SaveOptions&) const;
  bool leaves_records(bool background, const SaveCall&) const;
  /// `origin`: of a save that was on the nodes, whose number and place in the history it keeps.
  Prepared prepare(const Flight&, bool records, bool may_overwrite,
                   const CheckpointMeta* origin = nullptr);
  void write(Flight&, const State&, bool compares);
  void write_frozen(Flight&, const State&);  // local
  void copy(Flight&, const State&, bool compares, Laps&);
  void land(Flight&);
  void land_bytes(Flight&, const Job& as_written);
  void name_data(Flight&, const Job& as_written);
  void merge(Flight&);
  void finish(Flight&);
  Directory::Withdrawn withdraw(const Draft*, bool committed, bool failed = true);
  [[noreturn]] void give_up(const Error&, const Draft*, bool committed);

  // Room for a save that has failed for lack of it (room.cpp). Collective:
  std::optional<Error> prove(std::int64_t step);
  std::size_t remove_surplus(std::int64_t step);
  /// Nothing: some has been made. Else the error, with what can be done.
  std::optional<Error> make_room(const Error&, std::int64_t step);
  /// The same for one that is not tried again: what is to be told.
  Error make_room_for_next(const Error&, std::int64_t step);

  // Checkpoints on the nodes (nodes.cpp). Collective:
  void open_nodes();
  bool goes_to_nodes(const SaveOptions&);
  std::optional<SaveHandle> save_on_nodes(const Request&);
  struct PassedOver {
    std::vector<std::string> why;  // of those on the nodes
    std::set<std::string> saves;   // there, by uuid, also what was taken
    std::set<std::int64_t> steps;  // in the directory
  };
  std::optional<RestoreReport> restore_from_nodes(State&, const RestoreOptions&,
                                                  std::optional<std::int64_t> step, Touched& failed,
                                                  PassedOver&);
  struct Newest {
    std::int64_t wanted = -1, of_all_at_home = -1, of_all = -1;  // sequences
  };
  Newest newest_saves(std::optional<std::int64_t> step, const PassedOver&) const;
  struct FromNodes {
    State& state;
    const RestoreOptions& options;
    std::optional<std::int64_t> step;
    Touched& failed;
    PassedOver& passed;
    const Newest& newest;
    bool proves;  // every byte, before the state is touched
  };
  std::optional<RestoreReport> restore_from_nodes(tier::LocalSave&, const FromNodes&);
  RestoreReport restored_from_nodes(const tier::LocalSave&, const tier::Gathered&,
                                    const RedistributeReport& moved, const FromNodes&);
  void prove(tier::LocalSave&, std::unique_ptr<tier::Gathered>&);
  bool bring_home(const tier::Gathered&);
  void require_overwritten(const Touched& failed, const Touched& touched,
                           const RestoreReport&) const;

  // Of them to the directory (flush.cpp). Collective:
  bool flush_is_due() const;
  void begin_flush();
  std::unique_ptr<Flush> plan_flush(tier::LocalSave, int saves_before);
  void flush_now(const tier::LocalSave&, int saves_before, bool pins);
  // Local:
  void work_on_flush();
  void write_flush(Flush&) const;  // any thread
  void end_flush();
  void flush_failed(std::int64_t step, const Error&);

  // Local, and any thread: what tasks do in the background.
  void work_on(Flight&);
  void write_copy(Flight&) const;
  void take_name(Flight&) const;
  void tell_meta(Flight&) const;
  void record(Flight&) const;
  void publish(Flight&);  // rank 0

  // Local.
  bool is_quick(const SavePlan&, std::int64_t step) const;
  void offer_draft(PlanSum&);           // rank 0
  std::int64_t parent() const;          // rank 0
  std::int64_t parent_at_home() const;  // rank 0
  void work_in_background(Flight&);
  void make_ready(Flight&) const;                        // rank 0
  void tidy_in_background(const Flight&, bool durable);  // rank 0
  void enter(Flight&);
  void pin_flushed(std::int64_t step);  // rank 0
  void change(Flight&, SaveStage) const;
  void tell_unfinished() noexcept;
  void tell(const SaveHandle&) const;

  // Restores. Collective:
  RestoreReport restore_step(std::int64_t step, State&, const RestoreOptions&, Touched* = nullptr);
  std::optional<Format> twin_of(std::int64_t step);
  RestoreChoices choose();
  bool changed_meanwhile(std::int64_t step);
  void remember_damage(std::int64_t step, const Error&);  // local

  // Of a manager with a tier.
  bool has_home_ = false;   // there is a checkpoint in the directory
  int since_home_ = 0;      // saves on the nodes since the last one that was committed there
  std::int64_t line_ = -1;  // the newest of the state's ancestors, as all ranks know it
  std::shared_ptr<TaskQueue> flush_queue_;
  std::unique_ptr<Flush> flush_;     // null: none is under way
  bool flush_failed_ = false;        // since one has come home
  std::optional<Error> reads_only_;  // why, where it is to save
  bool throws_earlier_ = false;      // the error that is thrown is an earlier save's
};

}  // namespace cairn
