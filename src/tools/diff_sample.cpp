#include "tools/diff_sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cairn/error.hpp"
#include "tools/element_numbers.hpp"
#include "tools/read_tensor.hpp"

namespace cairn {
namespace {

// For two elements whose bits differ. The distance of complex numbers is that in the plane.
Mark mark_of(DType dtype, const char* a, const char* b, const Tolerance& tolerance,
             double& distance) {
  const auto part = part_of(dtype);
  const auto size = dtype_size(part);
  bool same = tolerance.any();
  distance = 0;
  for (std::size_t at = 0; at < dtype_size(dtype); at += size) {
    double x = 0, y = 0;
    to_doubles(part, a + at, 1, &x);
    to_doubles(part, b + at, 1, &y);
    const auto found = cairn::distance(part, a + at, b + at, x, y);
    const auto allowed =
        std::max(tolerance.absolute, tolerance.relative * std::max(std::abs(x), std::abs(y)));
    same = same && ((std::isnan(x) && std::isnan(y)) || found == 0 ||
                    (std::isfinite(found) && found <= allowed));
    distance = std::hypot(distance, found);
  }
  if (same) return Mark::same;
  return std::isfinite(distance) && distance > 0 ? Mark::number : Mark::no_number;
}

}  // namespace

DiffSample diff_sample(const TensorAt& a, const TensorAt& b, const Selection& selection,
                       std::int64_t most_rows, std::int64_t most_columns,
                       const Tolerance& tolerance) {
  const auto dtype = a.tensor.dtype;
  if (dtype != b.tensor.dtype || a.tensor.shape != b.tensor.shape) {
    throw Error(Code::internal, "tensors of two kinds are compared by value");
  }
  const auto box = bounding_box(selection);
  const auto of_a = read_numbers(a.checkpoint, a.tensor, box);
  const auto of_b = read_numbers(b.checkpoint, b.tensor, box);
  const auto strides = row_major_strides(box.extent);
  const auto item = static_cast<std::int64_t>(dtype_size(dtype));
  Indices rows{0, 1, 1}, columns{0, 1, 1};
  std::int64_t row_stride = 0, column_stride = 0;  // in bytes
  std::size_t shown = 0;
  for (auto d = selection.size(); d-- > 0;) {
    if (selection[d].count == 1) continue;
    if (shown == 2) throw Error(Code::internal, "more than two dimensions are to be drawn");
    (shown == 0 ? columns : rows) = selection[d];
    (shown == 0 ? column_stride : row_stride) = selection[d].step * strides[d] * item;
    ++shown;
  }
  DiffSample out;
  out.row_step = (rows.count - 1) / std::max<std::int64_t>(most_rows, 1) + 1;
  out.column_step = (columns.count - 1) / std::max<std::int64_t>(most_columns, 1) + 1;
  out.rows = (rows.count - 1) / out.row_step + 1;
  out.columns = (columns.count - 1) / out.column_step + 1;
  out.elements = rows.count * columns.count;
  const auto cells = static_cast<std::size_t>(out.rows * out.columns);
  out.values.assign(cells, std::numeric_limits<double>::quiet_NaN());
  out.marks.assign(cells, Mark::same);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    for (std::int64_t column = 0; column < columns.count; ++column) {
      const auto at = static_cast<std::size_t>(row * row_stride + column * column_stride);
      if (std::memcmp(&of_a[at], &of_b[at], static_cast<std::size_t>(item)) == 0) continue;
      double distance = 0;
      const auto mark = mark_of(dtype, &of_a[at], &of_b[at], tolerance, distance);
      if (mark == Mark::same) continue;
      ++out.differing;
      const auto cell =
          static_cast<std::size_t>(row / out.row_step * out.columns + column / out.column_step);
      if (mark == Mark::no_number) {
        ++out.without_number;
        out.marks[cell] = mark;
        out.values[cell] = std::numeric_limits<double>::quiet_NaN();
      } else if (out.marks[cell] != Mark::no_number) {
        out.values[cell] =
            out.marks[cell] == Mark::same ? distance : std::max(out.values[cell], distance);
        out.marks[cell] = mark;
      }
    }
  }
  return out;
}

}  // namespace cairn
