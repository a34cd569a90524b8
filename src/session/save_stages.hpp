#pragma once
/// The stages of a save. Members are collective and called by the thread that calls the manager,
/// unless marked.
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
  bool again = false;  ///< uses the plan of the last save
  /// Set if rank 0's id has come with the sum over ranks. Then nothing has been made of the save
  /// yet, and prepare() is left out.
  std::optional<DraftId> id = std::nullopt;
  std::optional<RefreshedState> resolved =
      std::nullopt;  ///< nothing: the state is saved as it was given
};

/// How long a save_async leaves the state where it is.
Until stays_until(const Job&, const SaveOptions&);

/// Whether the directory lacked room. False if memory was lacking, or if a saver of the application
/// has filled another place.
bool lacks_room(const Job&, const Error&);

/// The error of a task; nothing if it has not failed. Throws again an exception that must not
/// become an Error.
std::optional<Error> error_of(const std::exception_ptr& failure);

/// The same error with one more way out.
Error with_way_out(const Error&, const std::string& more);

/// Makes room for a save that has failed for lack of it (make_room.cpp).
class RoomMaker : EngineParts {
 public:
  explicit RoomMaker(const EngineParts& parts) : EngineParts(parts) {}

  /// Returns nothing if room has been made; otherwise the error, with a way out.
  std::optional<Error> make_room(const Error&, std::int64_t step);
  /// The same for a save that is not tried again: returns the error for the application.
  Error make_room_for_next(const Error&, std::int64_t step);

 private:
  std::optional<Error> prove(std::int64_t step);
  std::size_t remove_surplus(std::int64_t step);
};

/// Write, compare and record (write_save.cpp), and the tasks that do this in the background.
class Writing : EngineParts {
 public:
  explicit Writing(const EngineParts& parts) : EngineParts(parts) {}

  // Collective, the caller's thread. write(): write, compare and record of a blocking save. copy():
  // copies the state for an asynchronous save, and compares its replicas.
  void write(PendingSave&, const RefreshedState&, bool compares);
  void copy(PendingSave&, const RefreshedState&, bool compares, StageTimer&);

  /// Local. Gives the pending save's next task to the queue, unless the save has failed already. In
  /// both cases it becomes idle later, and ranks learn of a failure when they agree.
  void work_in_background(PendingSave&);

  // Local, any thread.
  /// Gives a draft and a name to a save on whose number ranks have agreed.
  void take_name(PendingSave&) const;
  /// Adds to the metadata what the application says of the checkpoint.
  void tell_meta(PendingSave&) const;
  void record(PendingSave&) const;
  void publish(PendingSave&);  ///< rank 0

 private:
  std::vector<StoredTensor> write_frozen(PendingSave&, const RefreshedState&);  // local
  void work_on(PendingSave&);
  void write_copy(PendingSave&) const;
};

/// Agree, merge, commit and tidy (end_save.cpp), or the end of a save that fails.
class Completion : EngineParts {
 public:
  Completion(const EngineParts& parts, Writing& writing, RoomMaker& room)
      : EngineParts(parts), writing_(writing), room_(room) {}

  /// Moves pending saves on as far as the tasks of all ranks are done. `wait`: waits for the tasks.
  void advance(bool wait);

  void merge(PendingSave&);
  void name_data(PendingSave&, const Job& as_written);
  void make_ready(PendingSave&) const;  ///< local, rank 0
  /// Agree, merge, name_data and make_ready, for a save in the background.
  void complete_bytes(PendingSave&, const Job& as_written);
  void finish(PendingSave&);
  void enter(PendingSave&);  ///< local: counts the save

  Store::Withdrawn withdraw(const Draft*, bool committed, bool failed = true);
  [[noreturn]] void give_up(const Error&, const Draft*, bool committed);

  // Local. They report to the application:
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

/// Advance, plan and prepare (begin_save.cpp).
class Planning : EngineParts {
 public:
  Planning(const EngineParts& parts, Completion& completion)
      : EngineParts(parts), completion_(completion) {}

  /// Deals with a save whose bytes are still being written, as the options say. Returns whether a
  /// new save may begin.
  bool make_way();
  PlannedSave plan(const SaveRequest&, const RefreshedState&);
  /// `origin`: for a save that was elsewhere, whose number and place in the history are kept.
  Prepared prepare(const PendingSave&, bool records, bool may_overwrite,
                   const CheckpointMeta* origin = nullptr);
  /// Rank 0, local. parent(): the sequence of the checkpoint that a save which begins now descends
  /// from. parent_at_home(): that of its last ancestor in the directory.
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

/// For saves of the application, and for code that copies a save here from elsewhere.
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

/// A whole save (save.cpp).
class Saves : EngineParts {
 public:
  Saves(const EngineParts& parts, Opening& opening, SaveStages& stages)
      : EngineParts(parts), opening_(opening), stages_(stages) {}

  /// Throws the errors of the save, and of a pending save that failed before.
  SaveHandle run(const SaveRequest&);

 private:
  /// Returns nothing if the save must block; `why` gets the reason.
  std::optional<SaveHandle> try_save(const SaveRequest&, Attempt&, std::string& why);
  void prepare(PendingSave&, const SaveRequest&);
  // They take the pending save only when nothing can fail any more, since until then the caller's
  // stage timer refers to its figures.
  SaveHandle go_on_behind(std::unique_ptr<PendingSave>&&, const RefreshedState&, bool compares,
                          StageTimer&, Attempt&);
  SaveHandle save_now(std::unique_ptr<PendingSave>&&, const RefreshedState&, bool compares,
                      StageTimer&, Attempt&);
  SaveHandle run_as_asked(const SaveRequest&);
  SaveHandle run_blocking(const SaveRequest&, const std::string& why);
  bool leaves_records(const SaveRequest&) const;  // local

  Opening& opening_;
  SaveStages& stages_;
  // What the refresh of one save leaves for the next.
  RefreshedState::Memory seen_memory_;
};

}  // namespace cairn
