#pragma once
/// Parts of a row-major array that are one run of elements: these need no packing.
#include <cstdint>
#include <optional>

#include "cairn/box.hpp"

namespace cairn {

/// If `part` of a row-major array of this extent is one run of elements, the index of its first;
/// else nothing. `part` is relative to the array and has elements.
std::optional<std::int64_t> run_at(const Box& part, const Dims& extent);
/// The same for a part in coordinates in which the array begins at `start`. Allocates nothing.
std::optional<std::int64_t> run_in_box(const Box& part, const Dims& start, const Dims& extent);

/// The index of the element at this position of a row-major array of this extent.
Dims index_at(std::int64_t position, const Dims& extent);

}  // namespace cairn
