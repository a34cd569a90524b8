#pragma once
/// Shows where a tensor differs between two checkpoints, in no more cells than a picture has room
/// for. Not collective.
#include <cstdint>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/diff.hpp"
#include "tools/draw.hpp"
#include "tools/selection.hpp"

namespace cairn {

/// The cells, row-major. A cell of several elements shows the one that differs most. A difference
/// that is not a number, such as between NaN and 1, counts more than any number.
struct DiffSample {
  std::int64_t rows = 1, columns = 1;
  std::int64_t row_step = 1,
               column_step = 1;  ///< selected elements in a cell; the last may have fewer
  std::vector<double> values;    ///< |a - b| if the mark is `number`, else NaN
  std::vector<Mark> marks;
  std::int64_t elements = 0, differing = 0;
  std::int64_t without_number = 0;  ///< differing elements whose difference is not a number
};

/// Both tensors must have the same numeric dtype and shape. The selection follows the rules of
/// sample(); Tolerance says which elements are equal. Memory: twice what is selected. Throws the
/// errors of read_numbers.
DiffSample diff_sample(const TensorAt& a, const TensorAt& b, const Selection&,
                       std::int64_t most_rows, std::int64_t most_columns, const Tolerance&);

}  // namespace cairn
