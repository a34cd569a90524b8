// From a key of the state to a stored tensor.
#include "session/restore/find_tensor.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/object_path.hpp"

namespace cairn {

// TensorFlow keeps the counter as the child "save_counter" of the graph's root.
TensorFinder::TensorFinder(const CheckpointContents& contents) : contents_(contents) {
  if (!contents.graph) return;
  graph_.emplace(*contents.graph);
  const auto& nodes = contents.graph->nodes;
  for (const auto& child : nodes.front().children) {
    if (child.name != "save_counter") continue;
    for (const auto& value : nodes[static_cast<std::size_t>(child.node)].attributes) {
      if (value.name == variable_value) save_counter_ = value.key;
    }
  }
}

const StoredTensor* TensorFinder::find(std::string_view key, std::string_view name) const {
  if (const auto* there = contents_.find(key)) return there;
  if (graph_) {
    // The graph knows all paths and names, so nothing is guessed beside it.
    const auto stored = graph_->key_of(key, name);
    return stored ? contents_.find(*stored) : nullptr;
  }
  if (const auto* there = find_by_path(key)) return there;
  for (const auto variable : {name, key}) {
    if (const auto* there = find_by_name(variable)) return there;
  }
  if (contents_.graph_problem.empty()) return nullptr;
  throw Error(Code::data_loss, cat("tensor '", key, "' cannot be looked up"),
              contents_.graph_problem, "Restore an older checkpoint.")
      .at(contents_.prefix)
      .of_tensor(std::string(key));
}

// Used if the graph is lost or was left out.
const StoredTensor* TensorFinder::find_by_path(std::string_view key) const {
  try {
    return contents_.find(object_key(key));
  } catch (const Error&) {
    return nullptr;  // the key is not the path of an object
  }
}

const StoredTensor* TensorFinder::find_by_name(std::string_view name) const {
  if (name.empty()) return nullptr;
  if (const auto* there = contents_.find(name)) return there;
  return name.ends_with(":0") ? contents_.find(name.substr(0, name.size() - 2)) : nullptr;
}

bool TensorFinder::is_bookkeeping(const StoredTensor& tensor) const {
  return tensor.key == object_graph_key || (graph_ && tensor.key == save_counter_);
}

std::string shown_name(std::string_view key) {
  // What follows an object's path in the key of its value: "/.ATTRIBUTES/VARIABLE_VALUE".
  static const std::string value = object_key("x").substr(1);
  if (key.ends_with(value)) key.remove_suffix(value.size());
  return std::string(key);
}

void offer_keys(const CheckpointContents& contents, Nearest& nearest) {
  for (const auto& tensor : contents.tensors) {
    if (tensor.key != object_graph_key) nearest.offer(shown_name(tensor.key));
  }
}

}  // namespace cairn
