#pragma once
/// Ids of rows, in ascending order.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::plan {

/// Where a row is, among those of a rank or of a block. Four bytes each: there is one for each row.
using Place = std::uint32_t;
constexpr std::int64_t most_places = std::int64_t{1} << 32;

struct SortedIds {
  std::vector<std::int64_t> ids;  ///< ascending
  std::vector<Place> places;      ///< of each in the list that was given; ascending for equal ids
};

/// In time that grows with the number of ids times that of their digits (radix sort); none of them
/// is negative, and there are at most most_places.
SortedIds sort_ids(std::span<const std::int64_t> ids);

/// A number that hardly ever is the same for another list: 128 bits, which no two lists share but
/// by a chance of 2^-100 or so.
using ListPrint = std::array<std::uint64_t, 2>;
ListPrint print_of(std::span<const std::int64_t> ids);

}  // namespace cairn::plan
