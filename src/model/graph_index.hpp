#pragma once
/// Looks things up in an object graph. Whatever the graph is, time and memory are bounded by its
/// size. Restores find the keys of a state's tensors with it (session/restore/find_tensor.hpp).
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/object_graph.hpp"

namespace cairn {

/// The graph must outlive the index, and have no node ids that are out of range.
class GraphIndex {
 public:
  explicit GraphIndex(const ObjectGraph&);

  /// Nodes at the end of a path, ascending. Names may themselves contain "/".
  std::vector<int> walk(std::string_view path) const;

  /// The key of the value that a state's key means: as it stands, as a path (with the attribute
  /// that it names, else VARIABLE_VALUE, else the only one), or as the name of a variable, with or
  /// without ":0". `name` is a variable's name to look for before the key. Throws invalid_argument
  /// with up to eight candidates if there are several.
  std::optional<std::string> key_of(std::string_view key, std::string_view name = {}) const;

 private:
  struct Edge {
    int node;
    std::string_view name;
    int child;
    auto operator<=>(const Edge&) const = default;
  };
  struct Value {
    std::string_view text;  // its name, or its key
    int node, attribute;
    auto operator<=>(const Value&) const = default;
  };
  std::vector<int> walk_plain(std::string_view path) const;
  std::vector<int> walk_parts(const std::vector<std::string>& parts) const;
  std::vector<int> slots_of(const std::vector<int>& optimizers, const std::vector<int>& variables,
                            std::string_view name) const;
  std::vector<Value> values_at(const std::vector<int>& nodes, std::string_view attribute) const;
  std::vector<Value> values_named(std::string_view name) const;
  std::optional<std::string> only(const std::vector<Value>&, std::string_view wanted,
                                  std::string_view what) const;

  const ObjectGraph& graph_;
  std::vector<Edge> edges_;              // sorted
  std::vector<Value> by_name_, by_key_;  // sorted
};

}  // namespace cairn
