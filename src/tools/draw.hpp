#pragma once
/// Draws numbers: a plane as colours, a line as a curve.
#include <cstdint>
#include <string>
#include <vector>

#include "tools/colours.hpp"
#include "tools/image.hpp"

namespace cairn {

/// One side of a picture: pixel k is index start + k * step.
struct IndexAxis {
  std::string name;
  std::int64_t start = 0, step = 1;
};

/// The texts around a picture.
struct Words {
  std::string title, subtitle;
  std::vector<std::string> notes;  ///< below the picture, one line each
};

/// What a cell of a plane shows if it is not a number.
enum class Mark : std::uint8_t {
  number,
  same,      ///< in a comparison: nothing differs there
  no_number  ///< in a comparison: differs, but not by a number
};

struct Plane {
  std::int64_t rows = 1, columns = 1;
  std::vector<double> values;  ///< row-major, the first row at the top
  std::vector<Mark> marks;     ///< empty: all cells are numbers
  IndexAxis row_axis, column_axis;
  ColourScale scale;
};

/// Draws each cell as a square, with a colour bar; cells become rectangles if the picture would be
/// too thin. NaN is a pattern of two greys; numbers that a logarithmic scale cannot show are black.
/// At most a few thousand cells a side.
Image draw_plane(const Plane&, const Words&);

/// The colour of a cell at this dot of the picture. The dot decides between the two greys of NaN.
Rgb cell_colour(const Plane&, std::size_t cell, int x, int y);

struct Curve {
  std::vector<double> values;          ///< one for each point, from left to right; NaN leaves a gap
  std::vector<double> least, largest;  ///< of the elements of a point; empty: the value itself
  IndexAxis axis;
  ColourScale scale;  ///< for the heights
  bool is_difference = false;
};
inline constexpr int curve_width = 720;  ///< the most points that can be told apart
Image draw_curve(const Curve&, const Words&);

}  // namespace cairn
