#include "model/object_path.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/object_graph.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse(std::string_view key, std::string why) {
  throw Error(Code::invalid_argument, cat("'", key, "' is no path of an object"), std::move(why),
              "Join the names of the objects by \"/\".")
      .of_tensor(std::string(key));
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find('/');
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

// TensorFlow's escapes: "." becomes "..", and "/" becomes ".S".
std::string escape_name(std::string_view name) {
  std::string part;
  for (const char c : name) {
    if (c == '.') {
      part += "..";
    } else if (c == '/') {
      part += ".S";
    } else {
      part += c;
    }
  }
  return part;
}

std::optional<std::string> unescape_name(std::string_view part) {
  std::string name;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '/') return std::nullopt;
    if (part[i] != '.') {
      name += part[i];
      continue;
    }
    if (++i == part.size() || (part[i] != '.' && part[i] != 'S')) return std::nullopt;
    name += part[i] == 'S' ? '/' : '.';
  }
  return name;
}

// A key in TensorFlow's spelling ends in "/.ATTRIBUTES/" and the attribute, and its names are
// escaped. In a slot's key the variable's names come first, then ".OPTIMIZER_SLOT", the optimizer's
// names, and the slot's.
ObjectPath parse_object_path(std::string_view key) {
  ObjectPath path;
  auto rest = key;
  const auto marker = cat('/', attributes_part, '/');
  const auto at = key.rfind(marker);
  const bool escaped = at != key.npos;
  if (escaped) {
    path.attribute = key.substr(at + marker.size());
    if (path.attribute.empty()) refuse(key, "it names no attribute");
    rest = key.substr(0, at);
  }
  bool slot = false;
  for (const auto part : split(rest)) {
    if (part.empty()) refuse(key, "it has an empty part");
    // In TensorFlow's spelling no name looks like this: its "." would be "..".
    if (part == slot_part && !path.parts.empty() && !slot) {
      slot = true;
      continue;
    }
    const auto name = escaped ? unescape_name(part) : std::string(part);
    if (!name) refuse(key, cat("in '", part, "' a \".\" is followed by neither \".\" nor \"S\""));
    (slot ? path.optimizer : path.parts).push_back(*name);
  }
  if (slot) {
    if (path.optimizer.size() < 2) refuse(key, "a slot has an optimizer and a name");
    path.slot = std::move(path.optimizer.back());
    path.optimizer.pop_back();
  }
  return path;
}

std::string stored_key(const ObjectPath& path) {
  std::string key;
  for (const auto& part : path.parts) key += escape_name(part) + '/';
  if (!path.optimizer.empty()) {
    key += cat(slot_part, '/');
    for (const auto& part : path.optimizer) key += escape_name(part) + '/';
    key += escape_name(path.slot) + '/';
  }
  return cat(key, attributes_part, '/',
             path.attribute.empty() ? variable_value : std::string_view(path.attribute));
}

std::string object_key(std::string_view path) { return stored_key(parse_object_path(path)); }

std::string slot_path(std::string_view optimizer, std::string_view variable,
                      std::string_view name) {
  return cat(variable, '/', slot_part, '/', optimizer, '/', name);
}

}  // namespace cairn
