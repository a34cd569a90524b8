#pragma once
/// A bitmap font for labels in pictures.
#include <cstddef>

namespace cairn {

inline constexpr int font_width = 5, font_height = 8;  ///< dots, without the gap to the next letter

/// Whether a letter has this dot, from the top left. Letters that are not ASCII look as '?'.
bool font_dot(char letter, int row, int column);

}  // namespace cairn
