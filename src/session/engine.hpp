#pragma once
/// The checkpoints of one name in one directory: what CheckpointManager, Checkpoint, sharded_save
/// and the tools drive.
///
///   engine_parts.hpp   what all of it shares: directory, plans, pending saves, rounds, save log
///   open.hpp           options, ownership, recovery
///   save_stages.hpp    a save, stage by stage
///   restore_steps.hpp  which checkpoint is restored
///   elsewhere.hpp      checkpoints that are not in the directory: nodes/node_checkpoints.hpp
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/async.hpp"
#include "cairn/options.hpp"
#include "cairn/restore_options.hpp"
#include "session/engine_parts.hpp"

namespace cairn {

struct SaveStages;

/// Members are called by the thread that may call MPI, under collective_call(). They are
/// collective, but for what is marked. What is said of the members of CheckpointManager holds for
/// those of the same name.
class Engine {
 public:
  explicit Engine(Job);  ///< one of make_job(), not yet agreed on
  /// Not collective.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineParts& parts() const;  ///< local
  SaveStages& stages();              ///< local; for who brings a save from elsewhere
  /// Local. Before it is opened; what lives as long as it is used.
  void go_by(Elsewhere*);

  /// At the beginning of a call: pending saves have an entry check of their own (advance), and a
  /// save's sum for the plan is one.
  void check_entry() const;

  /// See Opening.
  void open(bool may_only_restore = false);
  void require_writable(const char* what) const;  ///< local
  void begin_turns();                             ///< a manager's
  void take_round(bool of_save);                  ///< session/schedule/question_rounds.hpp

  void call_before_save(std::int64_t step) const;
  /// What the next save stores of the state, where rules by key leave something out.
  std::optional<State> leave_out(const State&) const;
  std::string save(std::int64_t step, const State&, const SaveOptions& = {});
  SaveHandle save_async(std::int64_t step, const State&, const SaveOptions& = {});
  /// Moves pending saves on as far as all ranks' tasks are done; or waits for these.
  void advance(bool wait);
  void complete_pending() { advance(true); }  ///< nothing is pending after it
  void throw_earlier_failure();               ///< local

  std::optional<RestoreReport> restore_latest(State&, const RestoreOptions&);
  RestoreReport restore(std::int64_t step, State&, const RestoreOptions&);

  void write_trace() const;  ///< local

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
