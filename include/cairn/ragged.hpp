#pragma once
/// Data whose size differs from rank to rank and from step to step, and data that belongs to one
/// rank only. State::add takes both; they become ordinary tensors of the checkpoint.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cairn/state.hpp"

namespace cairn {

/// Rows in memory that grows and shrinks. Each save calls `count` and `memory` anew, so the State
/// need not be built again when the number of rows changes.
class Rows {
 public:
  virtual ~Rows() = default;
  virtual std::int64_t count() const = 0;
  virtual bool resizable() const = 0;  ///< false: for saving only
  virtual void resize(std::int64_t rows) = 0;
  /// The present rows, [count, row shape]; used until the next resize.
  virtual std::shared_ptr<SliceMemory> memory() const = 0;
  /// The footprint of the object that resize() changes: the vector itself, not its elements.
  virtual Footprint footprint() const { return {}; }
  /// Called when a restore or redistribution has filled the whole state. It then throws the
  /// exceptions of this call on all ranks.
  virtual void filled() {}
};

/// Returns how many of all rows a rank gets. Called on each rank that has the tensor in its state;
/// together they must take all rows. A rank that adds the key only before a later LoadStatus::fill
/// gets an error: to deal again would take rows from memory that the application may have changed.
using RowDistribution = std::function<std::int64_t(std::int64_t total, int rank, int ranks)>;

/// How a rank-private item is restored on another number of ranks. With neither option that is an
/// error.
struct PrivateOptions {
  bool optional = false;  ///< if nothing is stored for this rank, memory stays as it is (kept_keys)
  /// Returns which of the stored_ranks ranks' items this rank gets; -1: none, as if optional.
  std::function<int(int rank, int ranks, int stored_ranks)> deal = nullptr;
};

struct RowIds;

/// The part of a LocalTensor that a save or restore resolves with all ranks.
struct Unresolved {
  enum class Kind { ragged, rank_private, indexed };
  Kind kind = Kind::ragged;
  std::shared_ptr<Rows> rows;  ///< null if the tensor is whole on its rank, and of fixed size
  RowDistribution distribution = nullptr;
  PrivateOptions options = {};
  std::shared_ptr<const RowIds> ids = nullptr;  ///< for an indexed tensor (cairn/indexed.hpp)
};

/// This rank's rows of a tensor [total, row shape...], in rank order. Any rank may have none, or
/// leave the tensor out. A restore deals the rows evenly, or by the distribution, over the ranks
/// that have the tensor in their state then, and resizes the memory.
LocalTensor ragged(std::shared_ptr<Rows> rows, DType dtype, Dims row_shape,
                   RowDistribution distribution = nullptr);

/// An item of this rank alone, stored as KEY/rank-RRRRR-of-NNNNN and restored on the same number of
/// ranks. `whole` is a whole tensor: its size may differ between ranks, but not change. Rows may
/// change in number.
LocalTensor rank_private(LocalTensor whole, PrivateOptions options = {});
LocalTensor rank_private(std::shared_ptr<Rows> rows, DType dtype, Dims row_shape,
                         PrivateOptions options = {});

namespace detail {

template <class T>
struct Columns {
  using element = T;
  static Dims shape() { return {}; }
};
template <class T, std::size_t N>
struct Columns<std::array<T, N>> {
  using element = T;
  static Dims shape() { return {static_cast<std::int64_t>(N)}; }
};

/// The rows of a vector, or of a string as bytes. A row has `per_row` of its elements.
template <class Vector>
class VectorRows : public Rows {
 public:
  VectorRows(Vector& values, DType dtype, Dims row_shape, std::int64_t per_row)
      : values_(&values), dtype_(dtype), shape_(std::move(row_shape)), per_row_(per_row) {}
  std::int64_t count() const override { return rows_of(values_->size(), per_row_); }
  bool resizable() const override { return !std::is_const_v<Vector>; }
  void resize(std::int64_t rows) override {
    if constexpr (!std::is_const_v<Vector>) {
      values_->resize(static_cast<std::size_t>(rows * per_row_));
    }
  }
  std::shared_ptr<SliceMemory> memory() const override {
    Dims extent = shape_;
    extent.insert(extent.begin(), count());
    void* writable = nullptr;
    if constexpr (!std::is_const_v<Vector>) writable = values_->data();
    return host_memory(dtype_, values_->data(), writable, std::move(extent), {});
  }
  Footprint footprint() const override { return footprint_of(*values_); }

 private:
  /// Throws invalid_argument if the elements do not make whole rows.
  static std::int64_t rows_of(std::size_t elements, std::int64_t per_row);
  Vector* values_;
  DType dtype_;
  Dims shape_;
  std::int64_t per_row_;
};

std::int64_t whole_rows(std::size_t elements, std::int64_t per_row);
template <class Vector>
std::int64_t VectorRows<Vector>::rows_of(std::size_t elements, std::int64_t per_row) {
  return whole_rows(elements, per_row);
}

/// Throws invalid_argument unless a row of this dtype and shape takes `bytes` bytes.
void check_row_bytes(DType dtype, const Dims& row_shape, std::size_t bytes);
/// Throws invalid_argument for a row without elements.
std::int64_t elements_per_row(const Dims& row_shape);

template <class Vector>
using Stored = typename Columns<typename Vector::value_type>::element;
template <class Vector>
concept VectorOfElements =
    Element<Stored<Vector>> && !std::is_same_v<Stored<Vector>, bool> &&
    (std::is_same_v<std::remove_const_t<Vector>, std::vector<typename Vector::value_type>> ||
     std::is_same_v<std::remove_const_t<Vector>, std::string>);

}  // namespace detail

/// A vector of numbers, or of arrays of them: [total] or [total, N]. The caller keeps it alive as
/// long as the State is used. A const one is for saving only.
template <class Vector>
requires detail::VectorOfElements<Vector> LocalTensor
ragged(Vector& rows, RowDistribution distribution = nullptr) {
  using Value = typename Vector::value_type;
  constexpr auto dtype = dtype_of<detail::Stored<Vector>>::value;
  auto shape = detail::Columns<Value>::shape();
  return ragged(std::make_shared<detail::VectorRows<Vector>>(rows, dtype, shape, 1), dtype, shape,
                std::move(distribution));
}

/// A flat vector of rows of this shape: [total, row_shape...].
template <class Vector>
requires detail::VectorOfElements<Vector> LocalTensor
ragged(Vector& values, Dims row_shape, RowDistribution distribution = nullptr) {
  constexpr auto dtype = dtype_of<typename Vector::value_type>::value;
  const auto per_row = detail::elements_per_row(row_shape);
  return ragged(std::make_shared<detail::VectorRows<Vector>>(values, dtype, row_shape, per_row),
                dtype, row_shape, std::move(distribution));
}

/// A vector of structs without pointers. The caller says what the bytes of a struct are: float64
/// {6}, say, or uint8 {sizeof(T)} for members of several types.
template <class T>
requires std::is_trivially_copyable_v<T> LocalTensor
ragged(std::vector<T>& rows, DType dtype, Dims row_shape, RowDistribution distribution = nullptr) {
  detail::check_row_bytes(dtype, row_shape, sizeof(T));
  return ragged(std::make_shared<detail::VectorRows<std::vector<T>>>(rows, dtype, row_shape, 1),
                dtype, row_shape, std::move(distribution));
}

/// The item is a number; or a vector of numbers or a string, whose length may change (a string's
/// bytes are stored as uint8); or any other value without pointers, stored as its bytes in memory.
template <Element T>
LocalTensor rank_private(T& value, PrivateOptions options = {}) {
  return rank_private(whole(&value, {}), std::move(options));
}
template <class Vector>
requires detail::VectorOfElements<Vector> LocalTensor rank_private(Vector& values,
                                                                   PrivateOptions options = {}) {
  constexpr auto dtype = std::is_same_v<std::remove_const_t<Vector>, std::string>
                             ? DType::uint8
                             : dtype_of<detail::Stored<Vector>>::value;
  auto shape = detail::Columns<typename Vector::value_type>::shape();
  return rank_private(std::make_shared<detail::VectorRows<Vector>>(values, dtype, shape, 1), dtype,
                      shape, std::move(options));
}
template <class T>
requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !Element<T>) LocalTensor
    rank_private(T& value, PrivateOptions options = {}) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::uint8_t, std::uint8_t>;
  return rank_private(
      whole(reinterpret_cast<Byte*>(&value), {static_cast<std::int64_t>(sizeof(T))}),
      std::move(options));
}

}  // namespace cairn
