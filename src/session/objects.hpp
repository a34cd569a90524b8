#pragma once
/// Stores a state as TensorFlow's objects.
#include <cstdint>
#include <optional>

#include "cairn/group.hpp"
#include "cairn/state.hpp"

namespace cairn {

class RowPlans;

/// Collective. Returns the state as it is stored with an object graph. Each tensor is under its
/// object's key, and rank 0 has the graph as one more string scalar. So the graph is covered,
/// written, recorded, checked and recovered like any other tensor; only restores and tools read it.
/// Slots need no special treatment, since TensorFlow's path of a slot is a key.
///
/// The graph is that of state.objects(), which must be the same on all ranks, or is made from the
/// paths of all ranks. With a carried graph, tensors that it does not know keep their own keys, and
/// it is an error if it names values that no rank has. Rank-private items keep their own keys,
/// outside the graph. Ragged and indexed tensors become plain ones.
///
/// `save_counter`: what TensorFlow's restore() asks for. If no rank has a tensor of this path, rank
/// 0 adds an int64 scalar; into a carried graph only if the graph knows the counter. Nothing: no
/// counter is added, and if no rank has the counter of a carried graph, it is removed from the
/// graph, as TensorFlow's read() requires. `plans`: of indexed tensors in earlier saves; may be
/// null.
State with_object_graph(Group&, const State&, std::optional<std::int64_t> save_counter,
                        RowPlans* plans);

}  // namespace cairn
