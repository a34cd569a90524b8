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
#include "model/seen_state.hpp"
#include "session/engine_parts.hpp"
#include "session/flights.hpp"
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

struct Planned {
  std::shared_ptr<SavePlan> plan;
  std::shared_ptr<const Descriptions> descriptions = nullptr;
  bool again = false;  ///< it is the last save's
  std::optional<DraftId> id = std::nullopt;
  std::optional<SeenState> resolved =
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
  void write(Flight&, const SeenState&, bool compares);
  void copy(Flight&, const SeenState&, bool compares, Laps&);

  /// Local. Hands the flight's next task to the queue, unless it has failed already: either way it
  /// becomes idle, and ranks find out together.
  void work_in_background(Flight&);

  // Local, any thread.
  /// A save on whose numbers ranks have agreed gets its name.
  void take_name(Flight&) const;
  /// What the application says of the checkpoint.
  void tell_meta(Flight&) const;
  void record(Flight&) const;
  void publish(Flight&);  ///< rank 0

 private:
  void write_frozen(Flight&, const SeenState&);  // local
  void work_on(Flight&);
  void write_copy(Flight&) const;
};

/// Verdict, merge, commit, tidy (end_save.cpp); or the end of a save without these.
class Landing : EngineParts {
 public:
  Landing(const EngineParts& parts, Writing& writing, RoomMaker& room)
      : EngineParts(parts), writing_(writing), room_(room) {}

  /// Moves saves in flight on as far as all ranks' tasks are done; or waits for these.
  void advance(bool wait);

  void merge(Flight&);
  void name_data(Flight&, const Job& as_written);
  void make_ready(Flight&) const;  ///< local, rank 0
  /// All of these, of a save behind the application's back.
  void land_bytes(Flight&, const Job& as_written);
  void finish(Flight&);
  void enter(Flight&);  ///< local: it counts

  Store::Withdrawn withdraw(const Draft*, bool committed, bool failed = true);
  [[noreturn]] void give_up(const Error&, const Draft*, bool committed);

  // Local. For the application:
  void change(Flight&, SaveStage) const;
  void tell(const SaveHandle&) const;
  void tell_unfinished(Flight&, LogLevel, const char* what) const noexcept;

 private:
  void land(Flight&);
  void tidy_in_background(const Flight&, bool durable);  // rank 0
  void pin_flushed(std::int64_t step);                   // rank 0

  Writing& writing_;
  RoomMaker& room_;
};

/// Settle, plan, prepare (begin_save.cpp).
class Planning : EngineParts {
 public:
  Planning(const EngineParts& parts, Landing& landing) : EngineParts(parts), landing_(landing) {}

  /// Deals with a save whose bytes are still on their way; whether a new one may begin.
  bool make_way();
  Planned plan(const SaveRequest&, const SeenState&);
  /// `origin`: of a save that was elsewhere, whose number and place in the history it keeps.
  Prepared prepare(const Flight&, bool records, bool may_overwrite,
                   const CheckpointMeta* origin = nullptr);
  /// Rank 0, local: the sequence of the checkpoint that a save which begins now goes on from, and
  /// of its ancestors in the directory the last.
  std::int64_t parent() const;
  std::int64_t parent_at_home() const;

 private:
  PlanSum ask_for_plan(const SaveRequest&, const SeenState&, bool quick);
  bool is_quick(const SavePlan&, std::int64_t step) const;
  void offer_draft(PlanSum&);  // rank 0
  Sharding settle_policy(const SaveOptions&);
  void require_step(std::int64_t step, const SaveOptions&) const;

  Landing& landing_;
};

/// For saves of the application, and for who brings one from elsewhere.
struct SaveStages {
  explicit SaveStages(const EngineParts& parts)
      : room(parts), writing(parts), landing(parts, writing, room), planning(parts, landing) {}

  RoomMaker room;
  Writing writing;
  Landing landing;
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
  void prepare(Flight&, const SaveRequest&);
  // These take the flight when nothing can fail any more: until then their caller's laps are its.
  SaveHandle go_on_behind(std::unique_ptr<Flight>&&, const SeenState&, bool compares, Laps&,
                          Attempt&);
  SaveHandle save_now(std::unique_ptr<Flight>&&, const SeenState&, bool compares, Laps&, Attempt&);
  SaveHandle run_as_asked(const SaveRequest&);
  SaveHandle run_blocking(const SaveRequest&, const std::string& why);
  bool leaves_records(const SaveRequest&) const;  // local

  Opening& opening_;
  SaveStages& stages_;
  SeenState::Memory seen_memory_;
};

}  // namespace cairn
