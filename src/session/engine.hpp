#pragma once
/// The checkpoints of one name in one directory. CheckpointManager, Checkpoint, sharded_save and
/// the tools call it.
///
///   engine_parts.hpp   what all stages share: directory, plans, pending saves, rounds, save log
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

/// All members are called under collective_call(), by the thread that may call MPI. They are
/// collective unless marked. Comments on members of CheckpointManager hold for members of the same
/// name here.
class Engine {
 public:
  explicit Engine(Job);  ///< one of make_job(); ranks need not have agreed on it yet
  /// Not collective.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineParts& parts() const;  ///< local
  SaveStages& stages();              ///< local; for code that copies a save here from elsewhere
  /// Local, called before open(). The Elsewhere must outlive this engine's use.
  void go_by(Elsewhere*);

  /// Called at the beginning of a call, except where another message already serves as entry check:
  /// advance() has its own, and so has the sum over ranks in planning a save.
  void check_entry() const;

  /// See Opening.
  void open(bool may_only_restore = false);
  void require_writable(const char* what) const;  ///< local
  void begin_turns();                             ///< only of a manager
  void take_round(bool of_save);                  ///< session/schedule/question_rounds.hpp

  void call_before_save(std::int64_t step) const;
  /// Returns what the next save stores of the state; nothing if rules by key leave nothing out.
  std::optional<State> leave_out(const State&) const;
  std::string save(std::int64_t step, const State&, const SaveOptions& = {});
  SaveHandle save_async(std::int64_t step, const State&, const SaveOptions& = {});
  /// Moves pending saves on as far as the tasks of all ranks are done. `wait`: waits for the tasks.
  void advance(bool wait);
  void complete_pending() { advance(true); }  ///< then nothing is pending
  void throw_earlier_failure();               ///< local

  std::optional<RestoreReport> restore_latest(State&, const RestoreOptions&);
  RestoreReport restore(std::int64_t step, State&, const RestoreOptions&);

  void write_trace() const;  ///< local

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
