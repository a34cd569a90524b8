#pragma once
/// Pictures of numbers: a plane as colours, a line as a curve.
#include <cstdint>
#include <string>
#include <vector>

#include "tools/colours.hpp"
#include "tools/image.hpp"

namespace cairn {

/// What stands along a side of a picture: pixel k is index start + k * step.
struct IndexAxis {
  std::string name;
  std::int64_t start = 0, step = 1;
};

/// What is written around a picture.
struct Words {
  std::string title, subtitle;
  std::vector<std::string> notes;  ///< below, a line each
};

/// What a cell of a plane is, where that is not a number.
enum class Mark : std::uint8_t {
  number,
  same,      ///< of a comparison: nothing differs there
  no_number  ///< differs, but not by a number
};

struct Plane {
  std::int64_t rows = 1, columns = 1;
  std::vector<double> values;  ///< row-major, the first row on top
  std::vector<Mark> marks;     ///< empty: all are numbers
  IndexAxis row_axis, column_axis;
  ColourScale scale;
};

/// Each cell as a square, or a rectangle where the picture would be too thin, with a colour bar.
/// NaN is a pattern of two greys; what a logarithmic scale has no place for is black. A few
/// thousand cells a side, at most.
Image draw_plane(const Plane&, const Words&);

/// The colour of a cell at this dot of a picture (two dots tell the two greys apart).
Rgb cell_colour(const Plane&, std::size_t cell, int x, int y);

struct Curve {
  std::vector<double> values;          ///< a point each, from left to right; NaN leaves a gap
  std::vector<double> least, largest;  ///< of what a point stands for; empty: the value
  IndexAxis axis;
  ColourScale scale;  ///< of the heights
  bool is_difference = false;
};
inline constexpr int curve_width = 720;  ///< most points that can be told apart
Image draw_curve(const Curve&, const Words&);

}  // namespace cairn
