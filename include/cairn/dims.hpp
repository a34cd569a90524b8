#pragma once
/// One number a dimension: extents, starts, strides.
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace cairn {

/// Extents, starts or strides: one number a dimension, slowest-varying first, in elements. Used as
/// a std::vector<std::int64_t>, made of one, and becomes one; but up to four numbers take no memory
/// of their own, as a checkpoint of many tensors has several of these for each slice. So a move may
/// move the numbers: iterators and data() are then no longer valid.
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
  Dims(const Dims& other) { assign(other.begin(), other.end()); }
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~Dims() = default;
  operator std::vector<value_type>() const { return {begin(), end()}; }

  size_type size() const { return size_; }
  bool empty() const { return size_ == 0; }
  value_type* data() { return many_ ? many_.get() : few_; }
  const value_type* data() const { return many_ ? many_.get() : few_; }
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
    auto more = std::make_unique_for_overwrite<value_type[]>(count);
    std::copy(begin(), end(), more.get());
    many_ = std::move(more);
    capacity_ = count;
  }
  void resize(size_type count, value_type value = 0) {
    reserve(count);
    if (count > size_) std::fill(end(), data() + count, value);
    size_ = count;
  }
  void push_back(value_type value) {
    if (size_ == capacity_) reserve(2 * capacity_);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  /// The numbers are not some of this object's own.
  template <std::forward_iterator Iterator>
  void assign(Iterator first, Iterator last) {
    const auto count = static_cast<size_type>(std::distance(first, last));
    size_ = 0;
    reserve(count);
    std::copy(first, last, data());
    size_ = count;
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
    size_ -= static_cast<size_type>(last - first);
    return begin() + at;
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend std::strong_ordering operator<=>(const Dims& a, const Dims& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr size_type few = 4;

  void take(Dims& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    many_ = std::move(other.many_);
    if (!many_) std::copy(other.few_, other.few_ + size_, few_);
    other.size_ = 0;
    other.capacity_ = few;
  }

  size_type size_ = 0, capacity_ = few;
  std::unique_ptr<value_type[]> many_;  // all numbers, when there have been more than a few
  value_type few_[few];                 // uninitialised beyond size_
};

}  // namespace cairn
