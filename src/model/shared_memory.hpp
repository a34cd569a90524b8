#pragma once
/// Whether elements share memory.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cairn/slice_memory.hpp"

namespace cairn {

/// Elements where they lie: of a slice, or one thing that has an address and no strides.
struct Laid {
  Footprint where;
  Dims extent;  ///< as many numbers as `where` has strides
};

/// Whether two of its elements share a byte. Here and below, strides that cannot be seen through in
/// a reasonable time count as sharing, addresses that are not known and what has no element as not.
bool folds(const Laid&);
/// Whether an element of one shares a byte with an element of the other.
bool share(const Laid&, const Laid&);
/// Whether no two share a byte, told quickly from where each begins and ends. False says nothing.
bool are_apart(const std::vector<Laid>&);
/// From the lowest byte to the one after the highest; none: of what has no address or no element.
struct ByteRange {
  std::int64_t begin = 0, end = 0;
};
std::optional<ByteRange> byte_range(const Footprint&, const Dims& extent);
/// Calls with the places in the list of each two that share a byte, in no particular order. About
/// n log n if there are none, also of many parts of one array.
void each_sharing(const std::vector<Laid>&, const std::function<void(std::size_t, std::size_t)>&);

}  // namespace cairn
