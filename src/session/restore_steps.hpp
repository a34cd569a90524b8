#pragma once
/// Which checkpoint is restored, and what happens when it is damaged.
#include <cstdint>
#include <optional>

#include "session/elsewhere.hpp"
#include "session/engine_parts.hpp"
#include "store/store.hpp"

namespace cairn {

/// A damaged checkpoint can be passed over; a state that does not fit it cannot.
bool is_damage(const Error&);

/// Thrown instead of a fall back, of a checkpoint of which this line tells.
Error tried_in_vain(const Job&, const std::string& line);

/// Collective. What a damaged checkpoint has written to, the older one must have overwritten.
void require_overwritten(const Job&, const Touched& failed, const Touched& touched,
                         const RestoreReport&);

/// Logs what the state has and the checkpoint has not, and the other way round.
void tell_differences(const RestoreReport&, const RestoreOptions&);

/// Collective. What is said of the members of CheckpointManager holds for those of the same name.
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
  std::optional<Format> twin_of(std::int64_t step);
  RestoreChoices choose();
  void look_again();
  bool changed_meanwhile(std::int64_t step);
  std::optional<Error> thinned(std::int64_t step, const Error&);
  bool pass_over_thinned(std::int64_t step, const Error&, RestoreChoices&);
  void remember_damage(std::int64_t step, const Error&);  // local
};

}  // namespace cairn
