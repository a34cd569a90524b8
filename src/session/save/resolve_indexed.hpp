#pragma once
/// Indexed tensors of a save: rows with ids, from any rank, are moved into blocks of rows in the
/// order of ids. The rest of the save then sees a dense tensor with one slice per rank. One slice
/// per row would need a box, an index entry and a place in the exchange plan for each row. The
/// price is memory for the block during the call. To send rows directly to the runs of the dense
/// tensor instead, every rank would have to know the runs of all others in each round.
#include "cairn/group.hpp"
#include "exchange/id_sets.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

/// Collective; call it if any rank's state has indexed tensors. Adds one slice of each to `plain`;
/// the slice owns its memory. `plans` may be null. Throws what gather_id_sets() throws, and an
/// error for ids that are doubled or missing.
void add_indexed(Group&, const RefreshedState&, RowPlans* plans, State& plain);

}  // namespace cairn
