#include "cli/graph.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cli/print.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t other_paths_shown = 3;

struct Ways {
  std::vector<std::string> paths;               // one for each node
  std::vector<std::vector<std::string>> other;  // the other paths to each node
};

Ways find_ways(const ObjectGraph& graph) {
  Ways ways{graph.paths(), {}};
  ways.other.resize(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& from = ways.paths[n];
    for (const auto& child : graph.nodes[n].children) {
      const auto to = static_cast<std::size_t>(child.node);
      // As in ObjectGraph::paths(): a long path of a parent is replaced by its number.
      auto path = n == 0 ? child.name : (from.size() > 512 ? cat('#', n) : from) + '/' + child.name;
      if (path != ways.paths[to]) ways.other[to].push_back(std::move(path));
    }
  }
  return ways;
}

std::string count_text(std::size_t count, const std::string& thing) {
  return cat(count, ' ', thing, count == 1 ? "" : "s");
}

std::vector<std::string> value_row(const CheckpointContents& contents, const std::string& path,
                                   const ObjectGraph::Attribute& value) {
  const auto* tensor = contents.find(value.key);
  return {path, tensor ? std::string(dtype_name(tensor->dtype)) : "missing",
          tensor ? shape_text(tensor->shape) : "",
          value.full_name.empty() ? "" : shown_key(value.full_name),
          value.name == "VARIABLE_VALUE" ? "" : shown_key(value.name)};
}

}  // namespace

Json graph_json(const CheckpointContents& contents) {
  if (!contents.graph_problem.empty()) return {{"problem", contents.graph_problem}};
  if (!contents.graph) return {};
  const auto& graph = *contents.graph;
  const auto ways = find_ways(graph);
  Json nodes = Json::array();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& node = graph.nodes[n];
    Json one{{"id", n}, {"path", ways.paths[n]}};
    if (!ways.other[n].empty()) one["other_paths"] = ways.other[n];
    for (const auto& child : node.children) {
      one["children"].push_back({{"name", child.name}, {"node", child.node}});
    }
    for (const auto& value : node.attributes) {
      one["attributes"].push_back(
          {{"name", value.name}, {"full_name", value.full_name}, {"key", value.key}});
    }
    for (const auto& slot : node.slots) {
      one["slots"].push_back(
          {{"variable", slot.variable}, {"name", slot.name}, {"slot", slot.slot}});
    }
    if (node.registered_saver) {
      one["registered_saver"] = {{"name", node.registered_saver->name},
                                 {"object_name", node.registered_saver->object_name}};
    }
    nodes.push_back(std::move(one));
  }
  return {{"nodes", std::move(nodes)}};
}

void print_graph(const CheckpointContents& contents, bool all) {
  if (!contents.graph) {
    print_line(
        cat("  ", contents.graph_problem.empty() ? "no object graph" : contents.graph_problem));
    return;
  }
  const auto& graph = *contents.graph;
  const auto ways = find_ways(graph);
  std::size_t values = 0, slots = 0;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& node = graph.nodes[n];
    values += node.attributes.size();
    slots += node.slots.size();
    if (node.attributes.empty() && !all) continue;
    const auto path = n == 0 ? "(root)" : shown_key(ways.paths[n]);
    if (node.attributes.empty()) rows.push_back({path});
    for (const auto& value : node.attributes) rows.push_back(value_row(contents, path, value));
    const auto& other = ways.other[n];
    const auto shown = all ? other.size() : std::min(other.size(), other_paths_shown);
    for (std::size_t i = 0; i < shown; ++i) rows.push_back({"  = " + shown_key(other[i])});
    if (shown < other.size()) rows.push_back({cat("  = ", other.size() - shown, " more (--all)")});
  }
  print_line(cat("  ", count_text(graph.nodes.size(), "object"), ", ", count_text(values, "value"),
                 ", ", count_text(slots, "slot")));
  print_table(rows, "    ");
}

}  // namespace cairn::cli
