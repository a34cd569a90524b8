#pragma once
/// Where a tensor of two checkpoints differs, as few cells as a picture has room for. By one
/// process.
#include <cstdint>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/diff.hpp"
#include "tools/draw.hpp"
#include "tools/selection.hpp"

namespace cairn {

/// Row-major. A cell of several elements shows the one that differs most: a difference without a
/// number, such as that between NaN and 1, before any number.
struct DiffSample {
  std::int64_t rows = 1, columns = 1;
  std::int64_t row_step = 1,
               column_step = 1;  ///< selected elements a cell, the last may have fewer
  std::vector<double> values;    ///< |a - b| where the mark is number, else NaN
  std::vector<Mark> marks;
  std::int64_t elements = 0, differing = 0;
  std::int64_t without_number = 0;  ///< of those that differ
};

/// Both have the same numeric dtype and shape; the selection is as of sample(). Which elements are
/// the same is said at Tolerance. Memory: what is selected, twice. Throws as read_numbers.
DiffSample diff_sample(const TensorAt& a, const TensorAt& b, const Selection&,
                       std::int64_t most_rows, std::int64_t most_columns, const Tolerance&);

}  // namespace cairn
