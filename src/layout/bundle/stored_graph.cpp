#include "layout/bundle/stored_graph.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/key_text.hpp"
#include "object_graph.pb.h"

namespace cairn::bundle {
namespace {

// Checks a graph. run() returns what is wrong, or an empty text. Writers must keep more rules than
// readers check.
class Check {
 public:
  Check(const ObjectGraph& graph, bool writing) : graph_(graph), writing_(writing) {}

  std::string run() {
    if (graph_.nodes.empty()) return "it has no nodes, not even the root";
    for (std::size_t n = 0; n < graph_.nodes.size() && problem_.empty(); ++n) {
      where_ = n;
      const auto& node = graph_.nodes[n];
      for (const auto& child : node.children) {
        text(child.name);
        id("child", child.name, child.node);
      }
      for (const auto& value : node.attributes) attribute(value);
      for (const auto& slot : node.slots) {
        text(slot.name);
        id("slot's variable", slot.name, slot.variable);
        id("slot", slot.name, slot.slot);
      }
      if (!node.registered_saver) continue;
      text(node.registered_saver->name);
      text(node.registered_saver->object_name);
    }
    std::sort(keys_.begin(), keys_.end());
    const auto twice = std::adjacent_find(keys_.begin(), keys_.end());
    if (twice != keys_.end()) blame(cat("two values are stored under ", key_text(*twice)));
    return problem_;
  }

 private:
  // Only the first problem is told.
  void blame(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }
  void text(std::string_view value) {
    if (!is_utf8(value)) blame(cat("node ", where_, ": ", key_text(value), " is not UTF-8"));
  }
  // Checks that a node of this number is there, so that readers can follow it unchecked.
  void id(std::string_view what, std::string_view name, int node) {
    if (node >= 0 && static_cast<std::size_t>(node) < graph_.nodes.size()) return;
    blame(cat("node ", where_, ": the ", what, ' ', key_text(name), " is node ", node,
              ", but there are ", graph_.nodes.size()));
  }
  void attribute(const ObjectGraph::Attribute& value) {
    text(value.name);
    text(value.full_name);
    text(value.key);
    if (!writing_) return;
    if (value.key.empty()) blame(cat("node ", where_, ": a value has no key"));
    keys_.push_back(value.key);
  }

  const ObjectGraph& graph_;
  bool writing_;
  // The node that is looked at, for the text of a problem.
  std::size_t where_ = 0;
  // Of all values, when writing: no two may be the same.
  std::vector<std::string_view> keys_;
  std::string problem_;
};

[[noreturn]] void bad_graph(std::string reason) {
  throw Error(Code::data_loss, "the checkpoint's object graph is damaged", std::move(reason));
}

}  // namespace

std::string encode_object_graph(const ObjectGraph& graph) {
  const auto refuse = [](std::string reason) {
    throw Error(Code::invalid_argument, "an object graph cannot be stored", std::move(reason));
  };
  if (auto problem = Check(graph, true).run(); !problem.empty()) refuse(std::move(problem));
  pb::Graph message;
  for (const auto& node : graph.nodes) {
    auto* to = message.add_nodes();
    for (const auto& child : node.children) {
      auto* one = to->add_children();
      one->set_node_id(child.node);
      one->set_local_name(child.name);
    }
    for (const auto& attribute : node.attributes) {
      auto* one = to->add_attributes();
      one->set_name(attribute.name);
      one->set_full_name(attribute.full_name);
      one->set_checkpoint_key(attribute.key);
    }
    for (const auto& slot : node.slots) {
      auto* one = to->add_slot_variables();
      one->set_original_variable_node_id(slot.variable);
      one->set_slot_name(slot.name);
      one->set_slot_variable_node_id(slot.slot);
    }
    if (node.registered_saver) {
      to->mutable_registered_saver()->set_name(node.registered_saver->name);
      to->mutable_registered_saver()->set_object_name(node.registered_saver->object_name);
    }
    if (node.has_values) to->mutable_has_checkpoint_values()->set_value(*node.has_values);
  }
  if (message.ByteSizeLong() > static_cast<std::size_t>(object_graph_limit_bytes)) {
    refuse(cat("it would take ", message.ByteSizeLong(), " bytes, more than ",
               object_graph_limit_bytes));
  }
  return message.SerializeAsString();
}

// Texts are moved out of the message, which is as large as the graph.
ObjectGraph decode_object_graph(std::string_view bytes) {
  if (bytes.size() > static_cast<std::size_t>(object_graph_limit_bytes)) {
    bad_graph(cat("it has ", bytes.size(), " bytes, more than ", object_graph_limit_bytes));
  }
  pb::Graph message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    bad_graph("it cannot be parsed");
  }
  ObjectGraph graph;
  graph.nodes.reserve(static_cast<std::size_t>(message.nodes_size()));
  for (auto& from : *message.mutable_nodes()) {
    auto& node = graph.nodes.emplace_back();
    for (auto& child : *from.mutable_children()) {
      node.children.push_back({std::move(*child.mutable_local_name()), child.node_id()});
    }
    for (auto& attribute : *from.mutable_attributes()) {
      node.attributes.push_back({std::move(*attribute.mutable_name()),
                                 std::move(*attribute.mutable_full_name()),
                                 std::move(*attribute.mutable_checkpoint_key())});
    }
    for (auto& slot : *from.mutable_slot_variables()) {
      node.slots.push_back({slot.original_variable_node_id(), std::move(*slot.mutable_slot_name()),
                            slot.slot_variable_node_id()});
    }
    if (from.has_registered_saver()) {
      auto& saver = *from.mutable_registered_saver();
      node.registered_saver = {std::move(*saver.mutable_name()),
                               std::move(*saver.mutable_object_name())};
    }
    if (from.has_has_checkpoint_values()) node.has_values = from.has_checkpoint_values().value();
  }
  if (auto problem = Check(graph, false).run(); !problem.empty()) bad_graph(std::move(problem));
  return graph;
}

}  // namespace cairn::bundle
