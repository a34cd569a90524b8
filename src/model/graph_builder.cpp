#include "model/graph_builder.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/object_path.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse(std::string problem, std::string reason, std::string way_out = "") {
  throw Error(Code::invalid_argument, std::move(problem), std::move(reason), std::move(way_out));
}

// Orders "2" before "10", and numbers before other names.
struct ByNumberThenText {
  static bool is_number(const std::string& text) {
    return text.find_first_not_of("0123456789") == text.npos && !text.empty() &&
           (text.size() == 1 || text.front() != '0');
  }
  bool operator()(const std::string& a, const std::string& b) const {
    const bool number_a = is_number(a), number_b = is_number(b);
    if (number_a != number_b) return number_a;
    if (number_a && a.size() != b.size()) return a.size() < b.size();
    return a < b;
  }
};

// Nodes are first numbered as they come, and in the end as the graph wants it. Node 0 is the root.
class Builder {
 public:
  void add(const ObjectValue& value) {
    auto path = parse_object_path(value.key);
    // A slot leads to its variable, which an alias may have to make reachable first. So slots wait
    // until finish().
    if (!path.slot.empty()) return slots_.push_back({std::move(path), value});
    give(make(path.parts), path, value);
  }

  void add(const std::vector<std::pair<std::string, std::string>>& aliases) {
    auto left = aliases;
    std::sort(left.begin(), left.end());
    left.erase(std::unique(left.begin(), left.end()), left.end());
    // An alias may lead to an object that only another alias makes reachable.
    for (bool progress = true; progress && !left.empty();) {
      progress = false;
      std::erase_if(left, [&](const auto& alias) {
        const auto target = find(parts_of(alias.second));
        if (target < 0) return false;
        join(alias.first, target);
        return progress = true;
      });
    }
    if (left.empty()) return;
    refuse(cat("alias '", left.front().first, "' leads nowhere"),
           cat("there is no '", left.front().second, "'"),
           "Give the path of a tensor of the state, or of a part of its tree.");
  }

  ObjectGraph finish() {
    std::sort(slots_.begin(), slots_.end(), [](const auto& a, const auto& b) {
      return std::tie(a.path.slot, a.path.parts) < std::tie(b.path.slot, b.path.parts);
    });
    std::vector<std::pair<int, ObjectGraph::Slot>> made;  // with the optimizer's node
    for (const auto& [path, value] : slots_) {
      const auto variable = find(path.parts);
      if (variable < 0) {
        refuse(cat("slot '", value.key, "' belongs to nothing"),
               "there is no variable under the path before .OPTIMIZER_SLOT");
      }
      const auto slot = fresh();
      give(slot, path, value);
      made.push_back({make(path.optimizer), {variable, path.slot, slot}});
    }
    return number(made);
  }

 private:
  struct Node {
    std::map<std::string, int, ByNumberThenText> children;
    std::vector<ObjectGraph::Attribute> attributes;
  };
  // A slot's value, which waits until its variable can be found.
  struct SlotValue {
    ObjectPath path;
    ObjectValue value;
  };

  int fresh() {
    nodes_.emplace_back();
    return static_cast<int>(nodes_.size()) - 1;
  }
  Node& at(int node) { return nodes_[static_cast<std::size_t>(node)]; }

  // The names of an alias's path, which may lead to an object only.
  static std::vector<std::string> parts_of(const std::string& path) {
    auto parsed = parse_object_path(path);
    if (!parsed.slot.empty() || !parsed.attribute.empty()) {
      refuse(cat("'", path, "' is no path of an alias"), "it names a slot or an attribute");
    }
    return std::move(parsed.parts);
  }

  // The node at the end of a path; -1: there is none.
  int find(const std::vector<std::string>& parts) {
    int node = 0;
    for (const auto& name : parts) {
      const auto child = at(node).children.find(name);
      if (child == at(node).children.end()) return -1;
      node = child->second;
    }
    return node;
  }

  // The same, but makes the nodes that are missing.
  int make(const std::vector<std::string>& parts) {
    int node = 0;
    for (const auto& name : parts) {
      const auto child = at(node).children.find(name);
      const int next = child == at(node).children.end() ? fresh() : child->second;
      at(node).children[name] = next;
      node = next;
    }
    return node;
  }

  // Makes the last name of a path lead to the target.
  void join(const std::string& path, int target) {
    auto parts = parts_of(path);
    const auto name = std::move(parts.back());
    parts.pop_back();
    const auto parent = make(parts);
    const auto [child, fresh] = at(parent).children.emplace(name, target);
    if (!fresh && child->second != target) {
      refuse(cat("alias '", path, "' leads to two places"),
             "a tensor or another alias has this path already");
    }
  }

  // Adds a value to an object, under the attribute that the key names, else VARIABLE_VALUE.
  void give(int node, const ObjectPath& path, const ObjectValue& value) {
    const std::string attribute(path.attribute.empty() ? variable_value : path.attribute);
    auto& all = at(node).attributes;
    for (const auto& there : all) {
      if (there.name != attribute) continue;
      refuse(cat("'", value.key, "' and '", there.key, "' are one object"),
             "it would have two values", "Leave one of them out of the state.");
    }
    all.push_back({attribute, value.name, stored_key(path)});
  }

  // Numbers the nodes breadth first from the root, slots last. Several paths may lead to one node.
  ObjectGraph number(const std::vector<std::pair<int, ObjectGraph::Slot>>& slots) {
    std::vector<int> number_of(nodes_.size(), -1);
    std::vector<int> order;
    const auto visit = [&](int node) {
      if (number_of[static_cast<std::size_t>(node)] >= 0) return;
      number_of[static_cast<std::size_t>(node)] = static_cast<int>(order.size());
      order.push_back(node);
    };
    visit(0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const auto& [name, child] : at(order[i]).children) visit(child);
    }
    for (const auto& [optimizer, slot] : slots) visit(slot.slot);
    const auto numbered = [&](int node) { return number_of[static_cast<std::size_t>(node)]; };
    ObjectGraph graph;
    graph.nodes.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto& node = graph.nodes[i];
      node.has_values = true;  // only values, and aliases of them, make paths
      node.attributes = std::move(at(order[i]).attributes);
      for (const auto& [name, child] : at(order[i]).children) {
        node.children.push_back({name, numbered(child)});
      }
    }
    for (const auto& [optimizer, slot] : slots) {
      graph.nodes[static_cast<std::size_t>(numbered(optimizer))].slots.push_back(
          {numbered(slot.variable), slot.name, numbered(slot.slot)});
    }
    return graph;
  }

  std::vector<Node> nodes_{1};
  std::vector<SlotValue> slots_;
};

}  // namespace

ObjectGraph build_object_graph(std::vector<ObjectValue> values,
                               std::vector<std::pair<std::string, std::string>> aliases) {
  // Errors must not depend on the order, either.
  std::sort(values.begin(), values.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  Builder builder;
  for (const auto& value : values) builder.add(value);
  builder.add(aliases);
  return builder.finish();
}

}  // namespace cairn
