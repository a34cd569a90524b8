#pragma once
/// Paths of objects, as a state's keys and a checkpoint's keys spell them.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

inline constexpr std::string_view variable_value = "VARIABLE_VALUE";
inline constexpr std::string_view attributes_part = ".ATTRIBUTES", slot_part = ".OPTIMIZER_SLOT";

/// A key taken apart. For a slot, `parts` lead to its variable.
struct ObjectPath {
  std::vector<std::string> parts;      ///< names, not escaped
  std::vector<std::string> optimizer;  ///< empty: no slot
  std::string slot;
  std::string attribute;  ///< empty: the key names none
};

/// Parses a key: in TensorFlow's spelling if it has "/.ATTRIBUTES/" in it, else as plain names
/// joined by "/". Throws invalid_argument for an empty part, or wrong escapes.
ObjectPath parse_object_path(std::string_view key);

/// The key in TensorFlow's spelling.
std::string stored_key(const ObjectPath&);

}  // namespace cairn
