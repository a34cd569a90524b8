#pragma once
/// Selects elements of a tensor, in NumPy's notation: "3", "10:20", "::2", "-1", "...".
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

/// The indices start, start + step, … of one dimension.
struct Indices {
  std::int64_t start = 0, count = 0, step = 1;
  bool dropped = false;  ///< a single index was given, so the result does not have this dimension
  std::int64_t last() const { return start + (count - 1) * step; }
  bool operator==(const Indices&) const = default;
};

using Selection = std::vector<Indices>;  ///< one for each dimension

/// Parses one entry for each dimension, separated by commas: an index, start:stop:step with any
/// part left out, or "...", which stands for as many ":" as are missing. Entries missing at the end
/// count as ":" too. Negative numbers count from the end; a range that leaves the tensor is cut
/// off. Throws invalid_argument for anything else, for an index outside of the tensor, for too many
/// entries, for a step below 1, and if nothing is selected.
Selection parse_selection(std::string_view text, const Dims& shape);

/// The dimensions that a picture can show: those of more than one index that were not dropped. If
/// there are more than `most`, the first ones are fixed at the middle of their selection.
struct Shown {
  std::vector<std::size_t> dimensions;  ///< ascending
  std::vector<std::size_t> fixed;       ///< those that were fixed although nobody asked for it
};
Shown show_at_most(Selection&, std::size_t most);

/// For instance "4,:,10:20:2".
std::string selection_text(const Selection&, const Dims& shape);

/// The smallest box that contains all selected elements.
Box bounding_box(const Selection&);

}  // namespace cairn
