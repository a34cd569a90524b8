#pragma once
/// Checks of a slice's box against the shape of its tensor.
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// Whether the box has the shape's rank and no index outside the shape. Any numbers and lengths may
/// be given. Unlike in Box::contains, a box without elements has to lie inside, too.
bool lies_inside(const Box&, const Dims& shape);

/// Whether a box that lies in the shape is whole in each dimension that is spelled "-".
bool is_whole_where_dashed(const Box&, const std::vector<bool>& dash, const Dims& shape);

}  // namespace cairn
