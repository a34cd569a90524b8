#pragma once
/// Finds what a set of boxes leaves out.
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// The elements of `whole` that none of these boxes holds, as disjoint boxes, ascending: few if
/// there are few ways to cut them, though not always the fewest. Boxes may come twice and reach out
/// of `whole`. If two different boxes share elements, the result says nothing. Takes time n log² n
/// for n boxes.
std::vector<Box> find_gaps(const Box& whole, std::vector<Box> boxes);

}  // namespace cairn
