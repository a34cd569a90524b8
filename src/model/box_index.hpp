#pragma once
/// Which of many boxes touch a given one, without looking at all of them.
#include <functional>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// An immutable R-tree (sort-tile-recursive) over boxes of one rank. Building costs n log n; a query
/// over disjoint boxes costs about log n plus its hits. Boxes without elements are never found.
class BoxIndex {
 public:
  explicit BoxIndex(const std::vector<Box>& boxes);
  /// Calls visit(i) for each box i that shares an element with `box`, in no particular order, until
  /// visit returns false.
  void query(const Box& box, const std::function<bool(std::size_t)>& visit) const;
  std::vector<std::size_t> query(const Box& box) const;  ///< all of them, ascending
};

}  // namespace cairn
