#pragma once
/// Indexed tensors of a save: from rows with ids on any rank to blocks of rows in their order.
#include "cairn/group.hpp"
#include "exchange/id_sets.hpp"
#include "model/seen_state.hpp"

namespace cairn {

/// Collective: some rank's state has indexed tensors. Adds a slice of each to `plain`, of which the
/// memory is a copy. `plans` may be null. Throws what gather_id_sets() throws, and for ids that are
/// doubled or missing.
void add_indexed(Group&, const SeenState&, RowPlans* plans, State& plain);

}  // namespace cairn
