#pragma once
/// Finds elements that share memory. For restores and redistributions, which must not write memory
/// twice.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cairn/slice_memory.hpp"

namespace cairn {

/// Where elements lie: those of a slice, or one object that has an address and no strides.
struct Laid {
  Footprint where;
  Dims extent;  ///< as many numbers as `where` has strides
};

/// Whether two of its elements share a byte. Here and below, strides that cannot be checked in a
/// reasonable time count as sharing. Addresses that are not known, and what has no elements, count
/// as not sharing.
bool folds(const Laid&);
/// Whether an element of one shares a byte with an element of the other.
bool share(const Laid&, const Laid&);
/// True if no two share a byte, found quickly from where each begins and ends. False says nothing.
bool are_apart(const std::vector<Laid>&);
/// From the lowest byte to the one after the highest. byte_range() returns nothing for what has no
/// address or no element.
struct ByteRange {
  std::int64_t begin = 0, end = 0;
};
std::optional<ByteRange> byte_range(const Footprint&, const Dims& extent);
/// Calls the function with the places in the list of each two that share a byte, in no particular
/// order. Takes about n log n if there are none, also for many parts of one array.
void each_sharing(const std::vector<Laid>&, const std::function<void(std::size_t, std::size_t)>&);

}  // namespace cairn
