#include "model/graph_index.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/object_path.hpp"

namespace cairn {
namespace {

// The first limit keeps the paths of a graph that is one long chain from growing with its square.
constexpr std::size_t longest_parent_path = 512, candidates_shown = 8;

std::string_view without_output_number(std::string_view name) {
  return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name;
}

}  // namespace

GraphIndex::GraphIndex(const ObjectGraph& graph) : graph_(graph) {
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const auto& node = graph.nodes[static_cast<std::size_t>(n)];
    for (const auto& child : node.children) edges_.push_back({n, child.name, child.node});
    for (int a = 0; a < static_cast<int>(node.attributes.size()); ++a) {
      const auto& attribute = node.attributes[static_cast<std::size_t>(a)];
      if (!attribute.full_name.empty()) by_name_.push_back({attribute.full_name, n, a});
      by_key_.push_back({attribute.key, n, a});
    }
  }
  std::sort(edges_.begin(), edges_.end());
  std::sort(by_name_.begin(), by_name_.end());
  std::sort(by_key_.begin(), by_key_.end());
}

// Since names may contain "/", each "/" may end a name or be part of one. All ways are followed,
// but none twice from one node and place in the path.
std::vector<int> GraphIndex::walk_plain(std::string_view path) const {
  if (path.empty()) return {0};
  std::set<int> found;
  std::set<std::pair<std::size_t, int>> seen{{0, 0}};  // how far in the path, and at which node
  std::vector<std::pair<std::size_t, int>> open{{0, 0}};
  while (!open.empty()) {
    const auto [begin, node] = open.back();
    open.pop_back();
    for (auto end = begin; end <= path.size(); ++end) {
      if (end < path.size() && path[end] != '/') continue;
      const auto name = path.substr(begin, end - begin);
      auto edge = std::lower_bound(edges_.begin(), edges_.end(), Edge{node, name, 0});
      for (; edge != edges_.end() && edge->node == node && edge->name == name; ++edge) {
        if (end == path.size()) {
          found.insert(edge->child);
        } else if (seen.insert({end + 1, edge->child}).second) {
          open.emplace_back(end + 1, edge->child);
        }
      }
    }
  }
  return {found.begin(), found.end()};
}

// Here it is known where names end, since parse_object_path() has split the path.
std::vector<int> GraphIndex::walk_parts(const std::vector<std::string>& parts) const {
  std::set<int> nodes{0};
  for (const auto& name : parts) {
    std::set<int> next;
    for (const auto node : nodes) {
      auto edge = std::lower_bound(edges_.begin(), edges_.end(), Edge{node, name, 0});
      for (; edge != edges_.end() && edge->node == node && edge->name == name; ++edge) {
        next.insert(edge->child);
      }
    }
    nodes = std::move(next);
  }
  return {nodes.begin(), nodes.end()};
}

// The slots of this name that these optimizers keep for these variables, which ascend.
std::vector<int> GraphIndex::slots_of(const std::vector<int>& optimizers,
                                      const std::vector<int>& variables,
                                      std::string_view name) const {
  std::set<int> found;
  for (const auto optimizer : optimizers) {
    for (const auto& slot : graph_.nodes[static_cast<std::size_t>(optimizer)].slots) {
      if (slot.name == name &&
          std::binary_search(variables.begin(), variables.end(), slot.variable)) {
        found.insert(slot.slot);
      }
    }
  }
  return {found.begin(), found.end()};
}

// A path to a slot is "VARIABLE/.OPTIMIZER_SLOT/OPTIMIZER/NAME". Both of the last may contain "/",
// so each place to cut between them is tried.
std::vector<int> GraphIndex::walk(std::string_view path) const {
  const auto marker = cat('/', slot_part, '/');
  const auto at = path.find(marker);
  if (at == path.npos) return walk_plain(path);
  const auto variables = walk_plain(path.substr(0, at));
  const auto rest = path.substr(at + marker.size());
  std::set<int> found;
  for (auto end = rest.find('/'); end != rest.npos; end = rest.find('/', end + 1)) {
    const auto slots = slots_of(walk_plain(rest.substr(0, end)), variables, rest.substr(end + 1));
    found.insert(slots.begin(), slots.end());
  }
  return {found.begin(), found.end()};
}

// The values of these nodes: of this attribute or, if none is named, VARIABLE_VALUE or the only
// one.
std::vector<GraphIndex::Value> GraphIndex::values_at(const std::vector<int>& nodes,
                                                     std::string_view attribute) const {
  std::vector<Value> values;
  for (const auto n : nodes) {
    const auto& all = graph_.nodes[static_cast<std::size_t>(n)].attributes;
    const auto with = [&](std::string_view name) {
      for (std::size_t a = 0; a < all.size(); ++a) {
        if (all[a].name == name) values.push_back({all[a].key, n, static_cast<int>(a)});
      }
    };
    const auto before = values.size();
    with(attribute.empty() ? variable_value : attribute);
    if (attribute.empty() && values.size() == before && all.size() == 1) {
      values.push_back({all[0].key, n, 0});
    }
  }
  return values;
}

std::vector<GraphIndex::Value> GraphIndex::values_named(std::string_view name) const {
  std::vector<Value> values;
  auto at = std::lower_bound(by_name_.begin(), by_name_.end(), Value{name, 0, 0});
  for (; at != by_name_.end() && at->text == name; ++at) values.push_back(*at);
  return values;
}

// The key of these values if they all have one key; nothing if there are none.
std::optional<std::string> GraphIndex::only(const std::vector<Value>& values,
                                            std::string_view wanted, std::string_view what) const {
  std::set<std::string_view> keys;
  for (const auto& value : values) {
    const auto& node = graph_.nodes[static_cast<std::size_t>(value.node)];
    keys.insert(node.attributes[static_cast<std::size_t>(value.attribute)].key);
  }
  if (keys.empty()) return std::nullopt;
  if (keys.size() == 1) return std::string(*keys.begin());
  std::string list;
  std::size_t shown = 0;
  for (const auto key : keys) {
    if (shown++ == candidates_shown) {
      list += cat(", … (", keys.size(), " in all)");
      break;
    }
    list += cat(list.empty() ? "'" : ", '", key, "'");
  }
  throw Error(Code::invalid_argument, cat("key '", wanted, "' means several tensors"),
              cat("as ", what, " it fits ", list),
              "Give the state one of these keys, or a path that only one object has.")
      .of_tensor(std::string(wanted));
}

std::optional<std::string> GraphIndex::key_of(std::string_view key, std::string_view name) const {
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), Value{key, 0, 0});
  if (at != by_key_.end() && at->text == key) return std::string(key);
  constexpr std::string_view path_words = "a path through the object graph";
  if (key.find(cat('/', attributes_part, '/')) == key.npos) {
    if (auto found = only(values_at(walk(key), {}), key, path_words)) return found;
  } else {
    // The key is a path in TensorFlow's spelling, whose value is stored under another key.
    const auto path = parse_object_path(key);
    auto nodes = walk_parts(path.parts);
    if (!path.slot.empty()) nodes = slots_of(walk_parts(path.optimizer), nodes, path.slot);
    if (auto found = only(values_at(nodes, path.attribute), key, path_words)) return found;
  }
  for (const auto variable : {name, key}) {
    if (variable.empty()) continue;
    auto values = values_named(variable);
    if (values.empty()) values = values_named(without_output_number(variable));
    if (auto found = only(values, key, cat("the variable's name '", variable, "'"))) {
      return found;
    }
  }
  return std::nullopt;
}

std::vector<int> ObjectGraph::find(std::string_view path) const {
  return nodes.empty() ? std::vector<int>() : GraphIndex(*this).walk(path);
}

// The first path that leads to each node, breadth first. "#N" is a node that no path leads to, or
// stands for a path that would be too long.
std::vector<std::string> ObjectGraph::paths() const {
  std::vector<std::string> paths(nodes.size());
  std::vector<bool> reached(nodes.size());
  std::vector<std::size_t> order;  // breadth first
  const auto below = [&](std::size_t parent, const std::string& name) {
    if (parent == 0) return name;
    const auto& path = paths[parent];
    return path.size() > longest_parent_path ? cat('#', parent, '/', name) : cat(path, '/', name);
  };
  const auto visit = [&](std::size_t root) {
    reached[root] = true;
    order.push_back(root);
    for (auto i = order.size() - 1; i < order.size(); ++i) {
      for (const auto& child : nodes[order[i]].children) {
        const auto node = static_cast<std::size_t>(child.node);
        if (reached[node]) continue;
        reached[node] = true;
        paths[node] = below(order[i], child.name);
        order.push_back(node);
      }
    }
  };
  if (!nodes.empty()) visit(0);
  for (std::size_t i = 0; i < order.size(); ++i) {  // a slot may have children and slots of its own
    for (const auto& slot : nodes[order[i]].slots) {
      const auto node = static_cast<std::size_t>(slot.slot);
      const auto variable = static_cast<std::size_t>(slot.variable);
      if (reached[node]) continue;
      const auto text = [&](std::size_t n) {
        return reached[n] && paths[n].size() <= longest_parent_path ? paths[n] : cat('#', n);
      };
      paths[node] = slot_path(text(order[i]), text(variable), slot.name);
      visit(node);
    }
  }
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!reached[n]) paths[n] = cat('#', n);
  }
  return paths;
}

bool ObjectGraph::forget(std::string_view key) {
  for (auto& node : nodes) {
    const auto gone =
        std::erase_if(node.attributes, [&](const auto& attribute) { return attribute.key == key; });
    if (gone > 0) return true;
  }
  return false;
}

}  // namespace cairn
