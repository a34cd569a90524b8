#pragma once
/// What a checkpoint holds, shared among the ranks of a restore. All ranks know the tensors. Only
/// *holders*, each of which has read a part of the index, know the slices of a large index; the
/// other ranks ask them for the slices that they want. A range that most ranks want is sent to all.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "layout/bundle/index_split.hpp"
#include "model/box_index.hpp"
#include "session/restore/delivery.hpp"

namespace cairn {

/// How an index is dealt to ranks. Tests make the numbers smaller.
struct IndexSharing {
  std::size_t least_bytes = std::size_t{1} << 19;  ///< a smaller index is sent whole to all ranks
  std::int64_t slices_a_part = 4096;
};
IndexSharing& index_sharing();

/// A stored slice, and its number among the slices of its tensor.
struct NumberedSlice {
  std::int64_t number;
  Piece slice;
};

class SharedIndex {
 public:
  /// For an index that every rank knows whole.
  explicit SharedIndex(CheckpointContents);

  /// The slices of dealt tensors are left out.
  const CheckpointContents& contents() const { return contents_; }
  /// Returns whether holders have the slices of this tensor (an index into contents().tensors), or,
  /// without an argument, of any tensor.
  bool is_dealt(int tensor) const { return dealt_of_[static_cast<std::size_t>(tensor)] >= 0; }
  bool is_dealt() const { return !ranges_.empty(); }
  std::int64_t slices(int tensor) const;  ///< how many slices the tensor has

  /// The boxes that this rank wants of a dealt tensor.
  struct Wish {
    int tensor;
    std::vector<Box> boxes;
  };
  /// Collective if any tensor is dealt, else local. Returns for each wish the slices that have
  /// elements in common with its boxes, ascending by number. It may return other slices too.
  std::vector<std::vector<NumberedSlice>> find(Group&, const std::vector<Wish>&) const;

 private:
  friend class IndexDealer;
  /// The slices of one tensor that lie in one part of the index.
  /// In the order of the index, so a range has higher numbers of slices than the ranges before it.
  struct Range : bundle::SliceRange {
    int holder = 0;
    bool whole = true;  ///< the range has all slices of the tensor
  };
  /// The slices of a range that this rank holds.
  struct Held {
    std::size_t range;
    std::vector<Piece> slices;
    std::unique_ptr<const BoxIndex> boxes;  ///< null: there are few slices, which are all looked at
    void index_boxes();
    /// Calls visit(i) for each slice i that shares an element with the box.
    void each_touched(const Box&, const std::function<void(std::size_t)>& visit) const;
  };
  /// The bounds of the slices of a range that is not whole; no dimensions: all slices are empty.
  const Box& bounds(std::size_t range) const;
  bool may_have(std::size_t range, const Box&) const;
  void answer(const Messages& asked, int ranks, Delivery&) const;

  CheckpointContents contents_;
  // For each tensor, its number among the dealt ones, or -1.
  std::vector<std::int64_t> dealt_of_;
  std::vector<std::int64_t> slices_of_;   // number of slices of each dealt tensor
  std::vector<Range> ranges_;             // ascending by tensor
  std::map<std::size_t, Box> bounds_;     // of the ranges that are not whole
  std::vector<std::size_t> first_range_;  // of each dealt tensor, and one past the last
  std::vector<Held> held_;                // ascending by range
};

}  // namespace cairn
