#pragma once
/// A state as TensorFlow's objects.
#include <cstdint>
#include <optional>

#include "cairn/group.hpp"
#include "cairn/state.hpp"

namespace cairn {

class RowPlans;

/// Collective. The state as it is stored with an object graph: each tensor under its object's key
/// and, on rank 0, the graph as one more string scalar, so that it is covered, written, recorded,
/// checked and recovered like any other, and only restores and tools read it. Slots need nothing of
/// their own: TensorFlow's path of a slot is a key.
///
/// The graph is that of state.objects(), the same on all
/// ranks, or is made of all ranks' paths. With a carried graph, tensors that it does not know stay
/// under their own keys, and values that no rank has are an error. Rank-private items stay under
/// their own keys, outside the graph; ragged and indexed tensors become plain ones.
///
/// save_counter: what TensorFlow's restore() asks for. Where no rank has a tensor of this path,
/// rank 0 adds an int64 scalar; into a carried graph only if that knows it. Nothing: none is added,
/// and a carried graph loses its own if no rank has it, as TensorFlow's read() wants it.
/// plans: of indexed tensors in earlier saves; may be null.
State with_object_graph(Group&, const State&, std::optional<std::int64_t> save_counter,
                        RowPlans* plans);

}  // namespace cairn
