#pragma once
/// Builds an object graph from paths. A save stores the graph as a tensor of its own
/// (session/objects.cpp).
#include <string>
#include <utility>
#include <vector>

#include "cairn/object_graph.hpp"

namespace cairn {

/// A value. Its key is a path, or a key in TensorFlow's spelling (object_path.hpp).
struct ObjectValue {
  std::string key;
  std::string name;  ///< of the variable; may be empty
};

/// Builds the same graph for the same values in any order: nodes are numbered breadth first,
/// children by name, slots last. An alias (path, target) makes `path` lead to the object at
/// `target`, with all below it. Throws invalid_argument for two values of one object and attribute,
/// for a slot without a variable, and for aliases that lead nowhere or to two places.
ObjectGraph build_object_graph(std::vector<ObjectValue> values,
                               std::vector<std::pair<std::string, std::string>> aliases);

}  // namespace cairn
