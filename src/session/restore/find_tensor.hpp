#pragma once
/// Finds the stored tensor that a state's key means.
#include <optional>
#include <string>
#include <string_view>

#include "base/nearest.hpp"
#include "cairn/contents.hpp"
#include "model/graph_index.hpp"

namespace cairn {

/// The contents must outlive it. The constructor takes time in proportion to the size of the graph.
class TensorFinder {
 public:
  explicit TensorFinder(const CheckpointContents&);

  /// Returns the first of these that exists: the tensor stored under exactly this key; the value of
  /// the object to which this path leads (any of the object's paths); the variable called `name` or
  /// `key`, with or without ":0", in the graph or, without a graph, among the keys. Returns null if
  /// there is none. Throws invalid_argument with the candidates if there are several, data_loss if
  /// only the damaged object graph could tell.
  const StoredTensor* find(std::string_view key, std::string_view name = {}) const;

  /// Returns whether no state is expected to hold this tensor: the graph, and TensorFlow's
  /// save_counter.
  bool is_bookkeeping(const StoredTensor&) const;

 private:
  const StoredTensor* find_by_path(std::string_view key) const;
  const StoredTensor* find_by_name(std::string_view name) const;

  const CheckpointContents& contents_;
  std::optional<GraphIndex> graph_;
  std::string_view save_counter_;
};

/// A stored key as a program would write it. For the value of an object this is the object's path.
std::string shown_name(std::string_view key);

/// Offers all stored keys to `nearest`, as programs would write them.
void offer_keys(const CheckpointContents&, Nearest&);

}  // namespace cairn
