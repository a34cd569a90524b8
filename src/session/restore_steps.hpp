#pragma once
/// Chooses which checkpoint is restored, and decides what happens if it is damaged.
#include <cstdint>
#include <optional>

#include "session/elsewhere.hpp"
#include "session/engine_parts.hpp"
#include "store/store.hpp"

namespace cairn {

/// Whether a restore may pass over a checkpoint that failed with this error: if it is damaged, not
/// if the state does not fit it.
bool is_damage(const Error&);

/// The error if fall backs are not allowed and earlier runs have restored the checkpoint in vain.
/// `line`: what the log says of the checkpoint.
Error tried_in_vain(const Job&, const std::string& line);

/// Collective. Throws unless the older checkpoint has overwritten all that a damaged one had
/// written to.
void require_overwritten(const Job&, const Touched& failed, const Touched& touched,
                         const RestoreReport&);

/// Logs what only the state has, and what only the checkpoint has.
void tell_differences(const RestoreReport&, const RestoreOptions&);

/// Members are collective unless marked. Comments on members of CheckpointManager hold for members
/// of the same name here.
class Restorer : EngineParts {
 public:
  explicit Restorer(const EngineParts& parts) : EngineParts(parts) {}

  std::optional<RestoreReport> restore_latest(State&, const RestoreOptions&);
  RestoreReport restore(std::int64_t step, State&, const RestoreOptions&);

 private:
  std::optional<RestoreReport> restore_newest(State&, const RestoreOptions&);
  void look_at_earlier_runs();  // local
  void add_those_elsewhere(RestoreChoices&);
  void note_restored(std::int64_t step);
  RestoreReport restore_step(std::int64_t step, State&, const RestoreOptions&, Touched&,
                             bool may_be_older);
  void require_metadata(std::int64_t step, const CheckpointContents&) const;
  std::optional<Format> twin_of(std::int64_t step);
  RestoreChoices choose();
  void look_again();
  void check_owner();
  Store::Change look_for_change(std::int64_t step);
  Error removed_meanwhile(std::int64_t step, const Error&) const;  // local
  std::optional<Error> thinned(std::int64_t step, const Error&);
  bool pass_over_thinned(std::int64_t step, const Error&, RestoreChoices&);
  void remember_damage(std::int64_t step, const Error&);  // local
};

}  // namespace cairn
