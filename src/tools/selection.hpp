#pragma once
/// Which elements of a tensor are looked at, in NumPy's words: "3", "10:20", "::2", "-1", "...".
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// Indices start, start + step, … of one dimension.
struct Indices {
  std::int64_t start = 0, count = 0, step = 1;
  bool dropped = false;  ///< one index was given, so that the dimension is none of the result's
  std::int64_t last() const { return start + (count - 1) * step; }
  bool operator==(const Indices&) const = default;
};

using Selection = std::vector<Indices>;  ///< one a dimension

/// An entry a dimension, between commas: an index, start:stop:step with any part left out, or "..."
/// for as many ":" as are missing, which also stand for what is left out at the end. Negative ones
/// count from the end; a range that leaves the tensor is cut off. Throws invalid_argument for what
/// is none of these, an index outside, too many entries, a step below 1, or where nothing is left.
Selection parse_selection(std::string_view text, const Dims& shape);

/// The dimensions that a picture can show: those of more than one index that were not dropped. When
/// they are more than `most`, the first ones are fixed at the middle of what was selected.
struct Shown {
  std::vector<std::size_t> dimensions;  ///< ascending
  std::vector<std::size_t> fixed;       ///< those that nobody asked to fix
};
Shown show_at_most(Selection&, std::size_t most);

/// "4,:,10:20:2"
std::string selection_text(const Selection&, const Dims& shape);

/// The smallest box that holds all that is selected.
Box bounding_box(const Selection&);

}  // namespace cairn
