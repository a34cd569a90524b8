#include "tools/sample.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cairn/error.hpp"
#include "tools/element_numbers.hpp"
#include "tools/read_tensor.hpp"

namespace cairn {
namespace {

// A checksum covers a whole stored slice, so a check reads whole slices. If that would exceed both
// limits and nobody asked for the check, it is left out and the picture says so. So a plane of a
// tensor of terabytes is shown in seconds; nothing is restored from a picture.
constexpr std::int64_t much_bytes = std::int64_t{512} << 20, far_more = 4;

std::size_t to_index(std::int64_t value) { return static_cast<std::size_t>(value); }

// Which of the selected indices lie in a range, counted within the selection.
struct Part {
  std::int64_t first = 0, count = 0;
};
Part part_in(const Indices& indices, std::int64_t start, std::int64_t extent) {
  const auto ceiling = [&](std::int64_t at) {
    return at <= indices.start ? 0 : (at - indices.start - 1) / indices.step + 1;
  };
  const auto first = std::min(ceiling(start), indices.count);
  return {first, std::min(ceiling(start + extent), indices.count) - first};
}

// One axis of the picture.
struct Axis {
  std::size_t dimension = 0;
  bool shown = false;
  std::int64_t pixels = 1, step = 1;
};

Axis axis_of(Selection& selection, const std::vector<std::size_t>& shown, std::size_t which,
             std::int64_t most, Reduce reduce) {
  Axis axis;
  if (which >= shown.size()) return axis;
  axis.dimension = shown[which];
  axis.shown = true;
  auto& indices = selection[axis.dimension];
  axis.step = (indices.count - 1) / std::max<std::int64_t>(most, 1) + 1;
  axis.pixels = (indices.count - 1) / axis.step + 1;
  if (reduce == Reduce::stride) {
    indices.count = axis.pixels;
    indices.step *= axis.step;
  }
  return axis;
}

class Sampler {
 public:
  Sampler(const StoredTensor& tensor, Selection selection, const SampleLimits& limits)
      : tensor_(tensor), item_(dtype_size(tensor.dtype)), selection_(std::move(selection)) {
    std::vector<std::size_t> shown;
    for (std::size_t d = 0; d < selection_.size(); ++d) {
      if (selection_[d].count > 1) shown.push_back(d);
    }
    if (shown.size() > 2) throw Error(Code::internal, "more than two dimensions are to be drawn");
    is_curve_ = shown.size() < 2;
    if (is_curve_) shown.insert(shown.begin(), selection_.size());  // a curve has no rows
    columns_ = axis_of(selection_, shown, 1, limits.columns, limits.reduce);
    if (!is_curve_) rows_ = axis_of(selection_, shown, 0, limits.rows, limits.reduce);
    block_rows_ = limits.reduce == Reduce::mean ? rows_.step : 1;
    block_columns_ = limits.reduce == Reduce::mean ? columns_.step : 1;
    out_.rows = rows_.pixels;
    out_.columns = columns_.pixels;
    out_.row_step = rows_.step;
    out_.column_step = columns_.step;
    const auto pixels = to_index(out_.rows * out_.columns);
    out_.reduce = limits.reduce;
    sums_.assign(pixels, 0);
    taken_.assign(pixels, 0);
    if (is_curve_) {
      out_.least.assign(pixels, std::numeric_limits<double>::infinity());
      out_.largest.assign(pixels, -std::numeric_limits<double>::infinity());
    }
  }

  const Selection& selection() const { return selection_; }

  bool needs(const Box& box) const {
    for (std::size_t d = 0; d < selection_.size(); ++d) {
      if (part_in(selection_[d], box.start[d], box.extent[d]).count == 0) return false;
    }
    return true;
  }

  void take(const Box& chunk, const std::string& bytes) {
    if (!needs(chunk)) return;
    const auto strides = row_major_strides(chunk.extent);
    std::int64_t base = 0;
    for (std::size_t d = 0; d < selection_.size(); ++d) {
      const auto first = part_in(selection_[d], chunk.start[d], chunk.extent[d]).first;
      base += (selection_[d].start + first * selection_[d].step - chunk.start[d]) * strides[d];
    }
    const auto along = [&](const Axis& axis) {
      if (!axis.shown) return std::pair(Part{0, 1}, std::int64_t{0});
      const auto d = axis.dimension;
      return std::pair(part_in(selection_[d], chunk.start[d], chunk.extent[d]),
                       selection_[d].step * strides[d]);
    };
    const auto [rows, row_stride] = along(rows_);
    const auto [columns, column_stride] = along(columns_);
    gathered_.resize(to_index(columns.count) * item_);
    numbers_.resize(to_index(columns.count));
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const auto* from = bytes.data() + to_index(base + r * row_stride) * item_;
      if (column_stride != 1) {
        for (std::int64_t c = 0; c < columns.count; ++c) {
          std::copy_n(from + to_index(c * column_stride) * item_, item_,
                      gathered_.data() + to_index(c) * item_);
        }
        from = gathered_.data();
      }
      to_doubles(tensor_.dtype, from, columns.count, numbers_.data());
      add_row(rows.first + r, columns.first);
    }
  }

  // Counts for each pixel the elements that the gap has there.
  void take_gap(const Box& gap, const std::string& element) {
    if (!needs(gap)) return;
    const auto part = [&](const Axis& axis) {
      if (!axis.shown) return Part{0, 1};
      const auto d = axis.dimension;
      return part_in(selection_[d], gap.start[d], gap.extent[d]);
    };
    const auto rows = part(rows_), columns = part(columns_);
    numbers_.resize(1);
    to_doubles(tensor_.dtype, element.data(), 1, numbers_.data());
    each_block(rows, block_rows_, [&](std::int64_t row, std::int64_t of_rows) {
      each_block(columns, block_columns_, [&](std::int64_t column, std::int64_t of_columns) {
        add(to_index(row * out_.columns + column), numbers_.front(), of_rows * of_columns);
      });
    });
  }

  Sample2D result() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const auto count = static_cast<long double>(std::max<std::int64_t>(taken_[i], 1));
      out_.values.push_back(static_cast<double>(sums_[i] / count));
    }
    return std::move(out_);
  }

 private:
  void add_row(std::int64_t row, std::int64_t first_column) {
    const auto begin = row / block_rows_ * out_.columns;
    for (std::size_t c = 0; c < numbers_.size(); ++c) {
      const auto column = (first_column + static_cast<std::int64_t>(c)) / block_columns_;
      add(to_index(begin + column), numbers_[c], 1);
    }
  }

  // Visits the blocks that contain some of these indices, with their number.
  template <class Visit>
  static void each_block(const Part& part, std::int64_t size, const Visit& visit) {
    for (auto at = part.first, end = part.first + part.count; at < end;) {
      const auto next = std::min(end, (at / size + 1) * size);
      visit(at / size, next - at);
      at = next;
    }
  }

  void add(std::size_t pixel, double value, std::int64_t times) {
    sums_[pixel] += static_cast<long double>(value) * static_cast<long double>(times);
    taken_[pixel] += times;
    out_.elements += times;
    if (std::isnan(value)) {
      out_.nans += times;
    } else {
      if (std::isinf(value)) out_.infinities += times;
      if (is_curve_) {
        out_.least[pixel] = std::min(out_.least[pixel], value);
        out_.largest[pixel] = std::max(out_.largest[pixel], value);
      }
    }
  }

  const StoredTensor& tensor_;
  std::size_t item_;
  Selection selection_;
  bool is_curve_ = false;
  Axis rows_, columns_;
  std::int64_t block_rows_ = 1, block_columns_ = 1;
  Sample2D out_;
  std::vector<long double> sums_;  // for blocks whose numbers are near the largest double
  std::vector<std::int64_t> taken_;
  std::string gathered_;
  std::vector<double> numbers_;
};

}  // namespace

Sample2D sample(const OpenCheckpoint& checkpoint, const StoredTensor& tensor,
                const Selection& selection, SampleLimits limits, const Progress& progress) {
  const auto bytes_of = [&](const Selection& selected) {
    auto bytes = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    for (const auto& one : selected) bytes *= one.count;
    return bytes;
  };
  if (limits.reduce == Reduce::automatic) {
    limits.reduce = bytes_of(selection) > much_bytes ? Reduce::stride : Reduce::mean;
  }
  Sampler sampler(tensor, selection, limits);
  const auto wanted = bounding_box(sampler.selection());
  const auto take = [&](const Box& chunk, std::string& bytes) { sampler.take(chunk, bytes); };
  const auto take_gap = [&](const Box& gap, const std::string& element) {
    sampler.take_gap(gap, element);
  };
  const auto bytes = checked_bytes(*checkpoint, tensor, wanted);
  const bool checked = limits.check == Check::all || bytes <= much_bytes ||
                       bytes / far_more <= bytes_of(sampler.selection());
  if (checked) {
    read_chunks(checkpoint, tensor, wanted, take, take_gap, progress);
  } else {
    read_chunks_unchecked(
        checkpoint, tensor, wanted, [&](const Box& box) { return sampler.needs(box); }, take,
        take_gap, progress);
  }
  auto result = sampler.result();
  result.checked = checked;
  return result;
}

}  // namespace cairn
