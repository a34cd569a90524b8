#pragma once
/// The object graph as the bytes of a string scalar.
#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/object_graph.hpp"

namespace cairn::bundle {

/// Larger ones are refused. A node takes about 100 bytes.
inline constexpr std::int64_t object_graph_limit_bytes = std::int64_t{1} << 30;

/// What TensorFlow would write for the same graph. Throws invalid_argument for a graph without
/// nodes, node ids that are out of range, text that is not UTF-8, a value without a key, two values
/// under one key, and more than object_graph_limit_bytes.
std::string encode_object_graph(const ObjectGraph&);

/// Throws data_loss for bytes that are no such graph: without nodes, with node ids that are out of
/// range, with text that is not UTF-8. Circles are allowed: objects may know their owners. Memory
/// is bounded by a multiple of the size.
ObjectGraph decode_object_graph(std::string_view bytes);

}  // namespace cairn::bundle
