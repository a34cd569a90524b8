#pragma once
/// The stages of a save. Members are collective, and called by the thread that calls the manager,
/// but for what is marked.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/async.hpp"
#include "cairn/log.hpp"
#include "cairn/options.hpp"
#include "model/refreshed_state.hpp"
#include "session/engine_parts.hpp"
#include "session/pending_saves.hpp"
#include "session/save/plans.hpp"

namespace cairn {

class Opening;

/// What the application asks for.
struct SaveRequest {
  std::int64_t step;
  const State& given;
  const SaveOptions& options;
  bool background;
  SaveCall& call;
};

struct PlannedSave {
  std::shared_ptr<SavePlan> plan;
  std::shared_ptr<const Descriptions> descriptions = nullptr;
  bool again = false;  ///< it is the last save's
  std::optional<DraftId> id = std::nullopt;
  std::optional<RefreshedState> resolved =
      std::nullopt;  ///< nothing: the state is saved as it was given
};

/// In the directory: not memory, nor what a saver of the application has filled elsewhere.
bool lacks_room(const Job&, const Error&);

/// Of a task, nothing: it has not failed. Passes on what may not be told as an Error.
std::optional<Error> error_of(const std::exception_ptr& failure);

/// The same error with one more thing that can be done.
Error with_way_out(const Error&, const std::string& more);

/// Room for a save that has failed for lack of it (make_room.cpp).
class RoomMaker : EngineParts {
 public:
  explicit RoomMaker(const EngineParts& parts) : EngineParts(parts) {}

  /// Nothing: some has been made. Else the error, with what can be done.
  std::optional<Error> make_room(const Error&, std::int64_t step);
  /// The same for one that is not tried again: what is to be told.
  Error make_room_for_next(const Error&, std::int64_t step);

 private:
  std::optional<Error> prove(std::int64_t step);
  std::size_t remove_surplus(std::int64_t step);
};

/// Write, compare, record (write_save.cpp); and the tasks by which they happen behind the
/// application's back.
class Writing : EngineParts {
 public:
  explicit Writing(const EngineParts& parts) : EngineParts(parts) {}

  // Collective, the caller's thread. Write, compare and record of a blocking save; and the copy of
  // one behind the application's back, with its comparison.
  void write(PendingSave&, const RefreshedState&, bool compares);
  void copy(PendingSave&, const RefreshedState&, bool compares, StageTimer&);

  /// Local. Hands the pending save's next task to the queue, unless it has failed already: either
  /// way it becomes idle, and ranks find out together.
  void work_in_background(PendingSave&);

  // Local, any thread.
  /// A save on whose numbers ranks have agreed gets its name.
  void take_name(PendingSave&) const;
  /// What the application says of the checkpoint.
  void tell_meta(PendingSave&) const;
  void record(PendingSave&) const;
  void publish(PendingSave&);  ///< rank 0

 private:
  void write_frozen(PendingSave&, const RefreshedState&);  // local
  void work_on(PendingSave&);
  void write_copy(PendingSave&) const;
};

/// Verdict, merge, commit, tidy (end_save.cpp); or the end of a save without these.
class Completion : EngineParts {
 public:
  Completion(const EngineParts& parts, Writing& writing, RoomMaker& room)
      : EngineParts(parts), writing_(writing), room_(room) {}

  /// Moves pending saves on as far as all ranks' tasks are done; or waits for these.
  void advance(bool wait);

  void merge(PendingSave&);
  void name_data(PendingSave&, const Job& as_written);
  void make_ready(PendingSave&) const;  ///< local, rank 0
  /// All of these, of a save behind the application's back.
  void complete_bytes(PendingSave&, const Job& as_written);
  void finish(PendingSave&);
  void enter(PendingSave&);  ///< local: it counts

  Store::Withdrawn withdraw(const Draft*, bool committed, bool failed = true);
  [[noreturn]] void give_up(const Error&, const Draft*, bool committed);

  // Local. For the application:
  void change(PendingSave&, SaveStage) const;
  void tell(const SaveHandle&) const;
  void tell_unfinished(PendingSave&, LogLevel, const char* what) const noexcept;

 private:
  void complete(PendingSave&);
  void tidy_in_background(const PendingSave&, bool durable);  // rank 0
  void pin_flushed(std::int64_t step);                        // rank 0

  Writing& writing_;
  RoomMaker& room_;
};

/// Advance, plan, prepare (begin_save.cpp).
class Planning : EngineParts {
 public:
  Planning(const EngineParts& parts, Completion& completion)
      : EngineParts(parts), completion_(completion) {}

  /// Deals with a save whose bytes are still on their way; whether a new one may begin.
  bool make_way();
  PlannedSave plan(const SaveRequest&, const RefreshedState&);
  /// `origin`: of a save that was elsewhere, whose number and place in the history it keeps.
  Prepared prepare(const PendingSave&, bool records, bool may_overwrite,
                   const CheckpointMeta* origin = nullptr);
  /// Rank 0, local: the sequence of the checkpoint that a save which begins now goes on from, and
  /// of its ancestors in the directory the last.
  std::int64_t parent() const;
  std::int64_t parent_at_home() const;

 private:
  PlanSum ask_for_plan(const SaveRequest&, const RefreshedState&, bool quick);
  bool is_quick(const SavePlan&, std::int64_t step) const;
  void offer_draft(PlanSum&);  // rank 0
  Sharding agree_on_policy(const SaveOptions&);
  void require_step(std::int64_t step, const SaveOptions&) const;

  Completion& completion_;
};

/// For saves of the application, and for who brings one from elsewhere.
struct SaveStages {
  explicit SaveStages(const EngineParts& parts)
      : room(parts),
        writing(parts),
        completion(parts, writing, room),
        planning(parts, completion) {}

  RoomMaker room;
  Writing writing;
  Completion completion;
  Planning planning;
};

/// A save as a whole (save.cpp).
class Saves : EngineParts {
 public:
  Saves(const EngineParts& parts, Opening& opening, SaveStages& stages)
      : EngineParts(parts), opening_(opening), stages_(stages) {}

  SaveHandle run(const SaveRequest&);

 private:
  /// Nothing: it is to block, and why.
  std::optional<SaveHandle> try_save(const SaveRequest&, Attempt&, std::string& why);
  void prepare(PendingSave&, const SaveRequest&);
  // These take the pending save when nothing can fail any more: until then their caller's stage
  // timer are its.
  SaveHandle go_on_behind(std::unique_ptr<PendingSave>&&, const RefreshedState&, bool compares,
                          StageTimer&, Attempt&);
  SaveHandle save_now(std::unique_ptr<PendingSave>&&, const RefreshedState&, bool compares,
                      StageTimer&, Attempt&);
  SaveHandle run_as_asked(const SaveRequest&);
  SaveHandle run_blocking(const SaveRequest&, const std::string& why);
  bool leaves_records(const SaveRequest&) const;  // local

  Opening& opening_;
  SaveStages& stages_;
  RefreshedState::Memory seen_memory_;
};

}  // namespace cairn
