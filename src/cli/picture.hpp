#pragma once
/// Pictures of tensors, in files or on the terminal.
#include <optional>
#include <string>

#include "tools/draw.hpp"
#include "tools/sample.hpp"

namespace cairn::cli {

struct PictureOptions {
  std::string output;  ///< "": on the terminal
  bool is_log = false;
  std::string range;  ///< "": of the numbers
  std::optional<std::pair<double, double>> given_range() const;
};

/// How many rows and columns there is room for, where a picture is to have so many cells. What is
/// very long and thin loses its proportions.
SampleLimits room_for(const PictureOptions&, std::int64_t rows, std::int64_t columns);

/// Fills in the plane's scale, and shows it. `flatness`: how many more elements a cell has downwards
/// than to the right.
void show(Plane, Words, const PictureOptions&, double flatness);
/// The same of a curve.
void show(Curve, Words, const PictureOptions&);

}  // namespace cairn::cli
