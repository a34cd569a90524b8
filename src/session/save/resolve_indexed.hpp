#pragma once
/// Indexed tensors of a save: from rows with ids on any rank to blocks of rows in their order. The
/// rest of the save sees one slice a rank of a dense tensor. One slice for each row would need a
/// box, an index entry and a place in the exchange plan for each. The price is memory for the block
/// during the call. To hand rows to the runs of the dense tensor instead, every rank would have to
/// know the runs of all others in each round.
#include "cairn/group.hpp"
#include "exchange/id_sets.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

/// Collective: some rank's state has indexed tensors. Adds a slice of each to `plain`, of which the
/// memory is a copy. `plans` may be null. Throws what gather_id_sets() throws, and for ids that are
/// doubled or missing.
void add_indexed(Group&, const RefreshedState&, RowPlans* plans, State& plain);

}  // namespace cairn
