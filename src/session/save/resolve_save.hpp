#pragma once
/// Turns the state of a save into plain tensors, which are all that the exchange knows. The key,
/// shape or slices of ragged, rank-private and indexed tensors may depend on other ranks. They are
/// resolved first, so that later stages need not know these kinds.
#include <optional>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "cairn/state.hpp"
#include "exchange/id_sets.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

/// Collective. Returns the state as plain tensors; nothing if all ranks have only plain tensors
/// already. Throws disagreement if ranks have rows of different dtypes or shapes, errors in ids,
/// and the error of the refresh. `plans`: of earlier saves; may be null. `gaps`: receives the gaps
/// of sparse tensors, which become plain; null: sparse tensors stay sparse.
std::optional<RefreshedState> resolve(Group&, const RefreshedState&, RowPlans* plans,
                                      GapsByKey* gaps);

}  // namespace cairn
