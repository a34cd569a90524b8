#pragma once
/// Which stored tensor a state's key means.
#include <optional>
#include <string>
#include <string_view>

#include "base/nearest.hpp"
#include "cairn/contents.hpp"
#include "model/graph_index.hpp"

namespace cairn {

/// The contents must outlive it. Making one takes time in the size of the graph.
class TensorFinder {
 public:
  explicit TensorFinder(const CheckpointContents&);

  /// The first that there is: the tensor under this very key; the value of the object to which this
  /// path leads (any of its paths); the variable of this name, or called `name`, with or without
  /// ":0", in the graph or, where there is no graph, among the keys. Null: none. Throws
  /// invalid_argument with the candidates when there are several, data_loss when only the damaged
  /// object graph could tell.
  const StoredTensor* find(std::string_view key, std::string_view name = {}) const;

  /// The tensors that no state is expected to hold: the graph, and TensorFlow's save_counter.
  bool is_bookkeeping(const StoredTensor&) const;

 private:
  const StoredTensor* find_by_path(std::string_view key) const;
  const StoredTensor* find_by_name(std::string_view name) const;

  const CheckpointContents& contents_;
  std::optional<GraphIndex> graph_;
  std::string_view save_counter_;
};

/// A stored key as a program would write it: of an object its path.
std::string shown_name(std::string_view key);

/// Offers all keys that there are, as programs would write them.
void offer_keys(const CheckpointContents&, Nearest&);

}  // namespace cairn
