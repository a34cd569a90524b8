#pragma once
/// An object graph from paths.
#include <string>
#include <utility>
#include <vector>

#include "cairn/object_graph.hpp"

namespace cairn {

/// A value, under a path or in TensorFlow's spelling (object_path.hpp).
struct ObjectValue {
  std::string key;
  std::string name;  ///< of the variable; may be empty
};

/// The same graph for the same values in any order: breadth-first numbers, children by name, slots
/// last. An alias (path, target) makes `path` lead to the object at `target`, with all below it.
/// Throws invalid_argument for two values of one object and attribute, for a slot of nothing, and
/// for aliases that lead nowhere or to two places.
ObjectGraph build_object_graph(std::vector<ObjectValue> values,
                               std::vector<std::pair<std::string, std::string>> aliases);

}  // namespace cairn
