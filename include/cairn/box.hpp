#pragma once
/// Shapes, and boxes in them: the geometry of tensors and slices.
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/dims.hpp"

namespace cairn {

/// Number of elements of a shape. Throws invalid_argument on a negative extent, on more than 254
/// dimensions and on a product of 2^63 or more. The empty shape is a scalar: 1.
std::int64_t element_count(const Dims& shape);

/// Strides of a contiguous row-major array of this shape.
Dims row_major_strides(const Dims& shape);

/// "[512 512]"
std::string shape_text(const Dims& shape);

/// A box of a tensor: [start, start + extent) in each dimension. Half open; an extent may be 0.
struct Box {
  Dims start, extent;

  static Box whole(const Dims& shape) { return {Dims(shape.size(), 0), shape}; }
  std::size_t rank() const { return start.size(); }
  std::int64_t end(std::size_t dim) const { return start[dim] + extent[dim]; }
  std::int64_t count() const { return element_count(extent); }
  bool empty() const;
  bool is_whole(const Dims& shape) const;  ///< the same as == whole(shape)
  /// Every element of other is one of this (an empty box is in every box of its rank).
  bool contains(const Box& other) const;
  /// This box seen from an origin: start becomes start - origin.
  Box relative_to(const Dims& origin) const;
  bool operator==(const Box&) const = default;
  auto operator<=>(const Box&) const = default;  ///< by start, then extent: ascending slices
};

/// The common elements, or nothing when there are none.
std::optional<Box> intersect(const Box& a, const Box& b);
bool overlaps(const Box& a, const Box& b);

/// a without b, as at most 2·rank disjoint boxes in ascending order.
std::vector<Box> subtract(const Box& a, const Box& b);

/// "rows 128..255 × 0..511", with inclusive ends as people count; "the scalar" for rank 0.
std::string box_text(const Box& box);

/// A slice in TensorFlow's text form "40 30 0,20:15,15": full shape, then start,length of each
/// dimension. "-" is a whole dimension and is kept apart from the same range in numbers, because
/// TensorFlow's exact matches are textual. "" is a whole tensor of unstated shape.
struct SliceSpec {
  Dims shape;
  Box box;
  std::vector<bool> dash;  ///< a dimension was written "-"
  bool unstated = false;   ///< the text was ""
  bool operator==(const SliceSpec&) const = default;
};

/// Throws invalid_argument on a malformed text or a slice that leaves the shape.
SliceSpec parse_slice_spec(std::string_view text);
std::string to_string(const SliceSpec& spec);
/// Explicit numbers in each dimension; the form that saves use.
std::string slice_spec_text(const Dims& shape, const Box& box);

}  // namespace cairn
