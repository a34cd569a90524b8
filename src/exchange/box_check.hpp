#pragma once
/// Boxes that came from others: they are checked and printed before anything computes with them.
#include <string>

#include "cairn/box.hpp"
#include "model/box_in_shape.hpp"

namespace cairn {

/// box_text() if the box is sane; else its bare numbers.
std::string any_box_text(const Box& box);

}  // namespace cairn
