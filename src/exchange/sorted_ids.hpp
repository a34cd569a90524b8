#pragma once
/// Ids of rows, in ascending order.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::plan {

/// The place of a row among those of a rank or of a block. Four bytes, since there is one for each
/// row.
using Place = std::uint32_t;
constexpr std::int64_t most_places = std::int64_t{1} << 32;

struct SortedIds {
  std::vector<std::int64_t> ids;  ///< ascending
  std::vector<Place> places;      ///< of each id in the given list; ascending for equal ids
};

/// Radix sort: takes time in proportion to the number of ids times the digits of their range. No id
/// may be negative, and there may be at most most_places.
SortedIds sort_ids(std::span<const std::int64_t> ids);

/// A hash of 128 bits of a list of ids. Two different lists have the same one with a chance of
/// 2^-100 or so.
using ListPrint = std::array<std::uint64_t, 2>;
ListPrint print_of(std::span<const std::int64_t> ids);

}  // namespace cairn::plan
