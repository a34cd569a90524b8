#pragma once
/// What a set of boxes leaves out.
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// The elements of `whole` that none of these boxes holds, as disjoint boxes, ascending: few where
/// there are few ways to cut them, though not always the fewest. The boxes may come twice and reach
/// out of `whole`; where two of them share elements without being the same, the result says
/// nothing. Takes n log² n for n boxes.
std::vector<Box> find_gaps(const Box& whole, std::vector<Box> boxes);

}  // namespace cairn
