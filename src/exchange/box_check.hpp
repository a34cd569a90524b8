#pragma once
/// Boxes that somebody else made: checked and printed before anything computes with them.
#include <string>

#include "cairn/box.hpp"
#include "model/box_in_shape.hpp"

namespace cairn {

/// box_text() where the box has a sane text; else its bare numbers.
std::string any_box_text(const Box& box);

}  // namespace cairn
