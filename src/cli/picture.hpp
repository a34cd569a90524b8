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

/// Throws invalid_argument for a tensor that has no numbers, or no elements.
void require_drawable(const StoredTensor&);

/// Along a dimension of the tensor, of which a cell has so many selected indices.
IndexAxis axis_of(const Selection&, std::size_t dimension, std::int64_t step);

/// "dimension 0 at 64 (--slice 64,:,: picks)"
std::string fixed_text(const Selection&, const Shown&, const Dims& shape);

/// How many rows and columns there is room for, where a picture is to have so many cells. What is
/// very long and thin loses its proportions.
SampleLimits room_for(const PictureOptions&, std::int64_t rows, std::int64_t columns);

/// Fills in the plane's scale, and shows it. `flatness`: how many more elements a cell has
/// downwards than to the right.
void show(Plane, Words, const PictureOptions&, double flatness);
/// The same of a curve.
void show(Curve, Words, const PictureOptions&);

}  // namespace cairn::cli
