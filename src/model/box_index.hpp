#pragma once
/// Finds the boxes that touch a given one, without looking at all of them.
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// An immutable R-tree, packed at once, over boxes of one rank whose ends fit 64 bits. Building
/// costs n log n; a query over disjoint boxes costs about log n plus its hits. Boxes without
/// elements are never found. Any number of threads may query it at once.
class BoxIndex {
 public:
  /// Throws Code::internal when the boxes have differing ranks.
  explicit BoxIndex(const std::vector<Box>& boxes);
  /// Calls visit(i) for each box i that shares an element with `box`, in no particular order, until
  /// visit returns false. Throws Code::internal when `box` has another rank than the indexed ones.
  void query(const Box& box, const std::function<bool(std::size_t)>& visit) const;
  std::vector<std::size_t> query(const Box& box) const;  ///< all of them, ascending
  /// Whether any two of the boxes share an element: one walk of the tree against itself.
  bool any_overlap() const;

 private:
  /// Nodes of one height as flat corners: low[rank], high[rank] of each. Height 0: the boxes.
  struct Level {
    std::size_t count = 0;
    std::vector<std::int64_t> corners;
  };
  const std::int64_t* corners(std::size_t height, std::size_t node) const;
  bool touch(const std::int64_t* a, const std::int64_t* b) const;
  bool overlap_below(std::size_t height, std::size_t a, std::size_t b) const;
  bool visit_node(std::size_t height, std::size_t node, const Box& box,
                  const std::function<bool(std::size_t)>& visit) const;

  std::size_t rank_ = 0;
  std::vector<std::size_t> order_;  ///< index of each box of levels_[0]
  std::vector<Level> levels_;       ///< the last has one node; none if there is no box
};

/// Indices (ascending) of two boxes that share an element, or nothing: the lowest first index that
/// has a partner, and its lowest partner. About n log n when there are none.
std::optional<std::pair<std::size_t, std::size_t>> first_overlap(const std::vector<Box>& boxes);

}  // namespace cairn
