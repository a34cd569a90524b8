#include "cairn/box.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/box_in_shape.hpp"

namespace cairn {

std::int64_t element_count(const Dims& shape) {
  if (shape.size() > 254) {
    throw Error(Code::invalid_argument, cat("a shape has ", shape.size(), " dimensions"),
                "checkpoints hold at most 254");
  }
  std::int64_t count = 1;
  bool zero = false, overflow = false;
  for (const auto extent : shape) {
    if (extent < 0) {
      throw Error(Code::invalid_argument,
                  cat("shape ", shape_text(shape), " has a negative extent"));
    }
    // A shape with a zero has no elements, however large its other extents are.
    zero |= extent == 0;
    if (!zero && __builtin_mul_overflow(count, extent, &count)) overflow = true;
  }
  if (zero) return 0;
  if (overflow) {
    throw Error(Code::invalid_argument,
                cat("shape ", shape_text(shape), " has 2^63 elements or more"),
                "element counts are signed 64-bit");
  }
  return count;
}

// In elements. An extent of 0 counts as 1 here, so that no stride is 0.
Dims row_major_strides(const Dims& shape) {
  Dims strides(shape.size());
  // Unsigned, so that overflow is defined: the shape may be one that element_count would refuse.
  std::uint64_t stride = 1;
  for (auto d = shape.size(); d-- > 0;) {
    strides[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[d], 1));
  }
  return strides;
}

std::string shape_text(const Dims& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += cat(d ? " " : "", shape[d]);
  return text + "]";
}

bool Box::empty() const {
  return std::any_of(extent.begin(), extent.end(), [](auto e) { return e == 0; });
}

bool Box::is_whole(const Dims& shape) const {
  return extent == shape && start.size() == shape.size() &&
         std::all_of(start.begin(), start.end(), [](auto s) { return s == 0; });
}

// A box without elements is in any box of as many dimensions.
bool Box::contains(const Box& other) const {
  if (other.rank() != rank() || other.extent.size() != extent.size()) return false;
  if (other.empty()) return true;
  for (std::size_t d = 0; d < rank(); ++d) {
    // No end is computed: it may overflow, since others may give any numbers.
    std::int64_t ahead = 0;
    if (other.start[d] < start[d] || other.extent[d] < 0 || other.extent[d] > extent[d]) {
      return false;
    }
    if (__builtin_sub_overflow(other.start[d], start[d], &ahead) ||
        ahead > extent[d] - other.extent[d]) {
      return false;
    }
  }
  return true;
}

bool lies_inside(const Box& box, const Dims& shape) {
  if (box.rank() != shape.size() || box.extent.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto start = box.start[d], extent = box.extent[d];
    if (start < 0 || extent < 0 || extent > shape[d] || start > shape[d] - extent) return false;
  }
  return true;
}

bool is_whole_where_dashed(const Box& box, const std::vector<bool>& dash, const Dims& shape) {
  for (std::size_t d = 0; d < dash.size(); ++d) {
    if (dash[d] && (d >= shape.size() || box.extent[d] != shape[d])) return false;
  }
  return true;
}

Box Box::relative_to(const Dims& origin) const {
  Box moved = *this;
  for (std::size_t d = 0; d < rank(); ++d) moved.start[d] -= origin[d];
  return moved;
}

// For boxes of equally many dimensions, whose ends fit 64 bits. Two scalars overlap.
bool overlaps(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.rank(); ++d) {
    if (std::max(a.start[d], b.start[d]) >= std::min(a.end(d), b.end(d))) return false;
  }
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  if (!overlaps(a, b)) return std::nullopt;
  Box common = a;
  for (std::size_t d = 0; d < a.rank(); ++d) {
    common.start[d] = std::max(a.start[d], b.start[d]);
    common.extent[d] = std::min(a.end(d), b.end(d)) - common.start[d];
  }
  return common;
}

// What is left of `a`, as disjoint boxes, ascending.
std::vector<Box> subtract(const Box& a, const Box& b) {
  if (a.empty()) return {};
  const auto common = intersect(a, b);
  if (!common) return {a};
  // Peel the slabs before and after the common part off, one dimension after another.
  std::vector<Box> pieces;
  Box rest = a;
  for (std::size_t d = 0; d < a.rank(); ++d) {
    if (common->start[d] > rest.start[d]) {
      Box before = rest;
      before.extent[d] = common->start[d] - rest.start[d];
      pieces.push_back(std::move(before));
    }
    if (common->end(d) < rest.end(d)) {
      Box after = rest;
      after.start[d] = common->end(d);
      after.extent[d] = rest.end(d) - after.start[d];
      pieces.push_back(std::move(after));
    }
    rest.start[d] = common->start[d];
    rest.extent[d] = common->extent[d];
  }
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

// Whether start and extent make no box whose text could be given as rows.
static bool is_none(const Box& box) {
  if (box.extent.size() != box.rank()) return true;
  std::int64_t end = 0;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    if (__builtin_add_overflow(box.start[d], box.extent[d], &end) || box.extent[d] < 0) return true;
  }
  return false;
}

std::string box_text(const Box& box) {
  if (is_none(box)) {
    return cat("with start ", shape_text(box.start), " and extent ", shape_text(box.extent));
  }
  if (box.rank() == 0) return "the scalar";
  if (box.empty()) return cat("the empty box at ", shape_text(box.start));
  std::string text = "rows ";
  for (std::size_t d = 0; d < box.rank(); ++d) {
    text += cat(d ? " × " : "", box.start[d], "..", box.end(d) - 1);
  }
  return text;
}

}  // namespace cairn
