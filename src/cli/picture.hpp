#pragma once
/// Shows pictures of tensors, in files or on the terminal.
#include <optional>
#include <string>

#include "tools/draw.hpp"
#include "tools/sample.hpp"

namespace cairn::cli {

struct PictureOptions {
  std::string output;  ///< empty: on the terminal
  bool is_log = false;
  std::string range;  ///< empty: the range of the numbers
  std::optional<std::pair<double, double>> given_range() const;
};

/// Throws invalid_argument for a tensor without numbers or without elements.
void require_drawable(const StoredTensor&);

/// The axis along a dimension of the tensor. A cell has `step` selected indices.
IndexAxis axis_of(const Selection&, std::size_t dimension, std::int64_t step);

/// For instance "dimension 0 at 64 (--slice 64,:,: picks)".
std::string fixed_text(const Selection&, const Shown&, const Dims& shape);

/// The number of rows and columns for which there is room, for a picture of so many cells. Very
/// long and thin pictures lose their proportions.
SampleLimits room_for(const PictureOptions&, std::int64_t rows, std::int64_t columns);

/// Sets the plane's scale and shows the plane. `flatness` is the number of elements in a cell
/// downwards, divided by the number to the right.
void show(Plane, Words, const PictureOptions&, double flatness);
/// The same for a curve.
void show(Curve, Words, const PictureOptions&);

}  // namespace cairn::cli
