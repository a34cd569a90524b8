#pragma once
/// From what a state says to what the exchange knows: plain tensors. Ragged, rank-private and
/// indexed tensors may lack key, shape and slices until all ranks have met. They are resolved
/// first, so that no later stage knows of them.
#include <optional>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "cairn/state.hpp"
#include "exchange/id_sets.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

/// Collective. The state of a save as plain tensors; nothing if it is one of plain tensors on all
/// ranks already. Throws disagreement where ranks have rows of different dtypes or shapes, what is
/// wrong with ids, and the error of the refresh. `plans`: of earlier saves; may be null. `gaps`:
/// gets those of sparse tensors, which are plain ones then; null: these stay sparse.
std::optional<RefreshedState> resolve(Group&, const RefreshedState&, RowPlans* plans,
                                      GapsByKey* gaps);

}  // namespace cairn
