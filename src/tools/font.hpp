#pragma once
/// A bitmap font for labels in pictures.
#include <cstddef>

namespace cairn {

/// In dots, without the space between letters.
inline constexpr int font_width = 5, font_height = 8;

/// Returns whether a letter has this dot, counted from the top left. Letters that are not ASCII are
/// shown as '?'.
bool font_dot(char letter, int row, int column);

}  // namespace cairn
