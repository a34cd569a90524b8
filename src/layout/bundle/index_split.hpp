#pragma once
/// Lets several ranks read an index together. One rank splits it, in the time that the entries of
/// its tensors take; each part has the entries of some slices. Together the ranks prove what
/// parse_index() proves, and accept nothing else. They leave an index that is damaged, or not laid
/// out as TableWriter does it, to parse_index(), which says what is wrong. No I/O, and no messages.
/// A restore splits a large index on rank 0, and ranks read its parts
/// (session/restore/deal_index.cpp).
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "layout/bundle/limits.hpp"

namespace cairn::bundle {

struct SplitIndex {
  struct Part {
    std::int64_t slices = 0;
    std::string first_key;     ///< of its entries
    std::string head;          ///< what read_part() needs besides the entries
    std::string_view entries;  ///< in the index, or in `unpacked`
  };
  CheckpointContents contents;       ///< as from parse_index(), but sliced tensors have no slices
  std::vector<std::int64_t> slices;  ///< how many each sliced tensor has, ascending by key
  std::vector<Part> parts;           ///< with the slices in the order of their keys
  std::deque<std::string> unpacked;
};
/// `bytes` must outlive the result. Returns nothing if the index is left to parse_index().
std::optional<SplitIndex> split_index(std::string_view bytes, std::int64_t slices_a_part,
                                      const Limits& = {});

/// Slices of one sliced tensor in one part.
struct SliceRange {
  std::size_t part = 0, tensor = 0;   ///< `tensor` counts the sliced ones
  std::int64_t first = 0, count = 0;  ///< `first` counts the tensor's slices
};
/// Deals the slices of tensors to parts, in order. The result ascends by part and by tensor. Both
/// lists must have the same sum.
std::vector<SliceRange> slice_ranges(const std::vector<std::int64_t>& slices_of_tensors,
                                     const std::vector<std::int64_t>& slices_of_parts);

/// What a rank has read of a part: the slices of each of its ranges.
struct IndexRanges {
  std::vector<std::vector<Piece>> slices;
  std::int64_t bytes = 0;  ///< sum of the slices, each in its file or, if that is more, decoded
  /// A tensor's entry may list slices in another order than that of their keys. `unlisted` has the
  /// keys of slices that the list does not have at their place, `displaced` the keys that it has
  /// there instead. Over all parts these must be the same keys.
  std::vector<std::string> unlisted, displaced;
};
/// A range of a part: its tensor (without slices), how many slices that has in all, and how many in
/// the range. read_part() returns nothing if the index is left to parse_index().
struct RangeOf {
  const StoredTensor* tensor;
  std::int64_t all, count;
};
std::optional<IndexRanges> read_part(std::string_view head, std::string_view entries,
                                     const std::vector<RangeOf>& ranges, int num_files,
                                     const Limits& = {});

}  // namespace cairn::bundle
