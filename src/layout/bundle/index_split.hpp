#pragma once
/// An index that several ranks read together. One of them splits it, in the time that its tensors
/// take; each part has the entries of some slices. Together they prove what parse_index() proves,
/// and accept nothing else: what is damaged, or not laid out as TableWriter does it, they leave to
/// parse_index(), which tells what it is. No I/O, and no messages.
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
    std::string head;          ///< what read_part() needs besides them
    std::string_view entries;  ///< in the index, or in `unpacked`
  };
  CheckpointContents contents;       ///< as of parse_index(), but the slices of sliced tensors
  std::vector<std::int64_t> slices;  ///< of the sliced tensors, ascending by key: how many they are
  std::vector<Part> parts;           ///< slices go to them in the order of their keys
  std::deque<std::string> unpacked;
};
/// `bytes` must outlive the result. Nothing where it is left to parse_index().
std::optional<SplitIndex> split_index(std::string_view bytes, std::int64_t slices_a_part,
                                      const Limits& = {});

/// Slices of one sliced tensor in one part.
struct SliceRange {
  std::size_t part = 0, tensor = 0;   ///< the how manyeth sliced one
  std::int64_t first = 0, count = 0;  ///< in the tensor
};
/// Ascending by part and by tensor. Both lists have the same sum.
std::vector<SliceRange> slice_ranges(const std::vector<std::int64_t>& slices_of_tensors,
                                     const std::vector<std::int64_t>& slices_of_parts);

/// What a rank has read of a part: of each of its ranges the slices.
struct IndexRanges {
  std::vector<std::vector<Piece>> slices;
  std::int64_t bytes = 0;  ///< that all of them take, each in its file or, if more, decoded
  /// Keys under which slices stand here; and keys that the entries of tensors list in their place,
  /// of slices that stand elsewhere in the order of keys. Over all parts these must be the same.
  std::vector<std::string> unlisted, displaced;
};
/// Of each range of the part its tensor (without slices), and how many slices that has. Nothing
/// where it is left to parse_index().
struct RangeOf {
  const StoredTensor* tensor;
  std::int64_t all, count;
};
std::optional<IndexRanges> read_part(std::string_view head, std::string_view entries,
                                     const std::vector<RangeOf>& ranges, int num_files,
                                     const Limits& = {});

}  // namespace cairn::bundle
