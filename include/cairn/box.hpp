#pragma once
/// Shapes and boxes: the geometry of tensors and slices.
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// Extents, starts or strides: one number per dimension, slowest-varying first, in elements. It has
/// the interface of a std::vector<std::int64_t>, and converts from and to one; but up to four
/// numbers take no memory of their own, since a checkpoint of many tensors has several of these for
/// each slice. So a move may move the numbers, and makes iterators and data() invalid. It is small,
/// and copied bytewise if it has no memory of its own, because the speed of memory limits tables of
/// millions of boxes.
class Dims {
 public:
  using value_type = std::int64_t;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = value_type&;
  using const_reference = const value_type&;
  using iterator = value_type*;
  using const_iterator = const value_type*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  Dims() noexcept {}
  explicit Dims(size_type count, value_type value = 0) { resize(count, value); }
  Dims(std::initializer_list<value_type> values) : Dims(values.begin(), values.end()) {}
  Dims(const std::vector<value_type>& values) : Dims(values.begin(), values.end()) {}
  template <std::forward_iterator Iterator>
  Dims(Iterator first, Iterator last) {
    assign(first, last);
  }
  Dims(const Dims& other) { copy(other); }
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) copy(other);
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this == &other) return *this;
    drop();
    take(other);
    return *this;
  }
  ~Dims() { drop(); }
  operator std::vector<value_type>() const { return {begin(), end()}; }

  size_type size() const { return size_; }
  bool empty() const { return size_ == 0; }
  value_type* data() { return capacity_ > few ? numbers_.many : numbers_.few; }
  const value_type* data() const { return capacity_ > few ? numbers_.many : numbers_.few; }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  reverse_iterator rbegin() { return reverse_iterator(end()); }
  reverse_iterator rend() { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
  reference operator[](size_type dim) { return data()[dim]; }
  const_reference operator[](size_type dim) const { return data()[dim]; }
  reference front() { return *begin(); }
  const_reference front() const { return *begin(); }
  reference back() { return end()[-1]; }
  const_reference back() const { return end()[-1]; }

  void clear() { size_ = 0; }
  void reserve(size_type count) {
    if (count <= capacity_) return;
    if (count > std::numeric_limits<Count>::max()) throw std::length_error("too many dimensions");
    auto* const more = new value_type[count];
    std::copy(begin(), end(), more);
    drop();
    numbers_.many = more;
    capacity_ = static_cast<Count>(count);
  }
  void resize(size_type count, value_type value = 0) {
    reserve(count);
    if (count > size_) std::fill(end(), data() + count, value);
    size_ = static_cast<Count>(count);
  }
  void push_back(value_type value) {
    if (size_ == capacity_) reserve(2 * size_type{capacity_});
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  /// The range must not be a part of this object.
  template <std::forward_iterator Iterator>
  void assign(Iterator first, Iterator last) {
    const auto count = static_cast<size_type>(std::distance(first, last));
    size_ = 0;
    reserve(count);
    std::copy(first, last, data());
    size_ = static_cast<Count>(count);
  }
  iterator insert(const_iterator before, value_type value) {
    const auto at = before - begin();
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
    return begin() + at;
  }
  iterator erase(const_iterator which) { return erase(which, which + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    const auto at = first - begin();
    std::copy(last, cend(), begin() + at);
    size_ -= static_cast<Count>(last - first);
    return begin() + at;
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    const auto *of_a = a.data(), *of_b = b.data();
    for (size_type i = 0; i < a.size_; ++i) {
      if (of_a[i] != of_b[i]) return false;
    }
    return true;
  }
  friend std::strong_ordering operator<=>(const Dims& a, const Dims& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  using Count = std::uint32_t;
  static constexpr Count few = 4;
  union Numbers {
    value_type few[Dims::few];
    value_type* many;  // used once there have been more than `few`
  };

  void drop() noexcept {
    if (capacity_ > few) delete[] numbers_.many;
  }
  void copy(const Dims& other) {
    if (capacity_ > few || other.capacity_ > few) return assign(other.begin(), other.end());
    size_ = other.size_;
    numbers_ = other.numbers_;
  }
  // Call it only on a Dims without memory of its own.
  void take(Dims& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    numbers_ = other.numbers_;
    other.size_ = 0;
    other.capacity_ = few;
  }

  Count size_ = 0, capacity_ = few;
  Numbers numbers_{};
};

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
  bool is_whole(const Dims& shape) const;  ///< the same as *this == whole(shape)
  /// Whether every element of `other` is in this box (an empty box is in every box of its rank).
  bool contains(const Box& other) const;
  /// This box relative to an origin: start becomes start - origin.
  Box relative_to(const Dims& origin) const;
  bool operator==(const Box&) const = default;
  auto operator<=>(const Box&) const = default;  ///< by start, then extent: ascending slices
};

/// The common elements, or nothing if there are none.
std::optional<Box> intersect(const Box& a, const Box& b);
bool overlaps(const Box& a, const Box& b);

/// `a` without `b`, as at most 2·rank disjoint boxes in ascending order.
std::vector<Box> subtract(const Box& a, const Box& b);

/// "rows 128..255 × 0..511", with inclusive ends as people count; "the scalar" for rank 0.
std::string box_text(const Box& box);

/// A slice in TensorFlow's text form "40 30 0,20:15,15": full shape, then start,length of each
/// dimension. "-" is a whole dimension. It differs from the same range in numbers, because
/// TensorFlow compares texts for exact matches. "" is a whole tensor of unstated shape.
struct SliceSpec {
  Dims shape;
  Box box;
  std::vector<bool> dash;  ///< true for dimensions that were written "-"
  bool unstated = false;   ///< the text was ""
  bool operator==(const SliceSpec&) const = default;
};

/// Throws invalid_argument on a malformed text or a slice that leaves the shape.
SliceSpec parse_slice_spec(std::string_view text);
std::string to_string(const SliceSpec& spec);
/// The text with explicit numbers in each dimension, as saves use it.
std::string slice_spec_text(const Dims& shape, const Box& box);

}  // namespace cairn
