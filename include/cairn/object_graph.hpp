#pragma once
/// The objects of a checkpoint, as TensorFlow stores them beside the tensors: nodes with named
/// children. A node's attributes say under which key its value is stored.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// TensorFlow's TrackableObjectGraph. Node 0 is the root. An object that several paths lead to is
/// one node with several parents, so the graph may have cycles.
struct ObjectGraph {
  struct Child {
    std::string name;
    int node = 0;
    bool operator==(const Child&) const = default;
  };
  struct Attribute {
    std::string name;       ///< "VARIABLE_VALUE" for a variable
    std::string full_name;  ///< the variable's name; may be empty
    std::string key;        ///< of the tensor in the checkpoint
    bool operator==(const Attribute&) const = default;
  };
  /// A value that an optimizer of tf.compat.v1 keeps for a variable. The optimizer's node has it in
  /// its list; the slot's own node has no parent.
  struct Slot {
    int variable = 0;
    std::string name;
    int slot = 0;
    bool operator==(const Slot&) const = default;
  };
  struct Saver {
    std::string name, object_name;
    bool operator==(const Saver&) const = default;
  };
  struct Node {
    std::vector<Child> children;
    std::vector<Attribute> attributes;
    std::vector<Slot> slots;
    std::optional<Saver> registered_saver;
    std::optional<bool> has_values;  ///< it or a node below it has attributes; old graphs: unknown
    bool operator==(const Node&) const = default;
  };
  std::vector<Node> nodes;

  /// A path for each node: the first in breadth-first order, names joined by "/"; "" for the root,
  /// "model/w/.OPTIMIZER_SLOT/optimizer/m" for a slot. If the parent's path is longer than 512
  /// bytes, the path is "#PARENT/name"; a node that nothing leads to has "#NODE". PARENT and NODE
  /// are numbers.
  std::vector<std::string> paths() const;

  /// The nodes that a path leads to: mostly one, but names that contain "/" can give several nodes
  /// one path.
  std::vector<int> find(std::string_view path) const;

  /// Removes the attribute with this key, so that a save need not have its tensor. Returns false if
  /// there is none.
  bool forget(std::string_view key);

  bool operator==(const ObjectGraph&) const = default;
};

/// The key under which the graph is stored, as a string scalar.
inline constexpr std::string_view object_graph_key = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// The form of a child's name in a stored key: "." becomes "..", "/" becomes ".S".
std::string escape_name(std::string_view name);
/// The reverse; nothing for a text that escape_name never returns.
std::optional<std::string> unescape_name(std::string_view part);

/// The key under which the value of an object is stored: object_key("a.b/w") is
/// "a..b/w/.ATTRIBUTES/VARIABLE_VALUE". The part ".OPTIMIZER_SLOT" of a slot's path stays as it is,
/// and so does a key with "/.ATTRIBUTES/" in it, which is in TensorFlow's spelling already. Throws
/// invalid_argument for a path with an empty part.
std::string object_key(std::string_view path);

/// The path of the slot in which `optimizer` keeps the value `name` for `variable`; both are paths.
std::string slot_path(std::string_view optimizer, std::string_view variable, std::string_view name);

}  // namespace cairn
