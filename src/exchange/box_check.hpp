#pragma once
/// Boxes that somebody else made: checked and printed before anything computes with them.
#include <string>

#include "cairn/box.hpp"

namespace cairn {

/// A box of this shape's rank that lies inside it. Safe for any numbers and any lengths.
bool lies_inside(const Box& box, const Dims& shape);

/// box_text() where the box has a sane text; else its bare numbers.
std::string any_box_text(const Box& box);

}  // namespace cairn
