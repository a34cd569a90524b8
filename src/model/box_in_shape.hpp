#pragma once
/// Whether what a slice says of itself holds in the shape of its tensor.
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// Whether it is a box of the shape's rank, with no index outside the shape, for any numbers and
/// any lengths. Unlike for Box::contains, a box without elements lies somewhere, too.
bool lies_inside(const Box&, const Dims& shape);

/// Whether a box that lies in the shape is whole in each dimension that is spelled "-".
bool is_whole_where_dashed(const Box&, const std::vector<bool>& dash, const Dims& shape);

}  // namespace cairn
