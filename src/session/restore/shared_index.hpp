#pragma once
/// What a checkpoint holds, as the ranks of a restore share it. All of them know the tensors. The
/// slices of a large index are known to *holders*, each of which has read a part of the index; the
/// other ranks ask them for the slices that they want. A range that most ranks want goes to all.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "layout/bundle/index_split.hpp"
#include "model/box_index.hpp"
#include "session/restore/delivery.hpp"

namespace cairn {

/// How an index is dealt to ranks; tests make it smaller.
struct IndexSharing {
  std::size_t least_bytes = std::size_t{1} << 19;  ///< a smaller index is told to all as it is
  std::int64_t slices_a_part = 4096;
};
IndexSharing& index_sharing();

/// A stored slice and its number among those of its tensor.
struct NumberedSlice {
  std::int64_t number;
  Piece slice;
};

class SharedIndex {
 public:
  /// Of an index that every rank knows whole.
  explicit SharedIndex(CheckpointContents);

  /// Slices of tensors that holders have are left out.
  const CheckpointContents& contents() const { return contents_; }
  /// Whether holders have the slices of this tensor (an index into contents().tensors); of any.
  bool is_dealt(int tensor) const { return dealt_of_[static_cast<std::size_t>(tensor)] >= 0; }
  bool is_dealt() const { return !ranges_.empty(); }
  std::int64_t slices(int tensor) const;  ///< how many it has

  /// Wanted boxes of a tensor that is dealt.
  struct Wish {
    int tensor;
    std::vector<Box> boxes;
  };
  /// Collective, if any tensor is dealt. For each wish the slices that have elements of its boxes,
  /// perhaps with others, ascending.
  std::vector<std::vector<NumberedSlice>> find(Group&, const std::vector<Wish>&) const;

 private:
  friend class IndexDealer;
  /// Slices of one tensor in one part.
  struct Range : bundle::SliceRange {
    int holder = 0;
    bool whole = true;  ///< all slices of the tensor
    Box bounds = {};    ///< of them all, where it is not whole; without elements: of none
  };
  /// What this rank has of a range.
  struct Held {
    std::size_t range;
    std::vector<Piece> slices;
    BoxIndex boxes;
  };
  bool may_have(const Range&, const Box&) const;
  void answer(const Messages& asked, int ranks, Delivery&) const;

  CheckpointContents contents_;
  std::vector<std::int64_t> dealt_of_;    // of each tensor: the how manyeth dealt one; -1: none
  std::vector<std::int64_t> slices_of_;   // of each dealt one
  std::vector<Range> ranges_;             // ascending by tensor
  std::vector<std::size_t> first_range_;  // of each dealt one, and one past the last
  std::vector<Held> held_;                // ascending by range
};

}  // namespace cairn
