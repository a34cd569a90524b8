#pragma once
/// Replicated data whose length only the checkpoint knows: a history of residuals, a list of
/// events. It is like whole() of a vector, but a restore resizes it.
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/ragged.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// The whole tensor [rows, row shape...] on each rank that has it in its state, with as many rows
/// as the vector has at each save. Ranks must have equal rows, as in any tensor that several ranks
/// hold. A restore resizes it to the stored number of rows, on every rank alike; the dtype and the
/// shape of a row must be as stored (RestoreOptions::convert may allow another dtype).
/// RestoreOptions::offset cannot be used with it. It may be changed, swapped and resized between
/// saves, but must stay at its address as long as the State is used. A const one is for saving
/// only.
LocalTensor resizable(std::shared_ptr<Rows> rows, DType dtype, Dims row_shape);

/// A vector of numbers, or of arrays of them: [rows] or [rows, N].
template <class Vector>
requires(detail::VectorOfElements<Vector> &&
         !std::is_same_v<std::remove_const_t<Vector>, std::string>) LocalTensor
    resizable(Vector& values) {
  constexpr auto dtype = dtype_of<detail::Stored<Vector>>::value;
  auto shape = detail::Columns<typename Vector::value_type>::shape();
  return resizable(std::make_shared<detail::VectorRows<Vector>>(values, dtype, shape, 1), dtype,
                   shape);
}

/// A flat vector of rows of this shape: [rows, row_shape...].
template <class Vector>
requires(detail::VectorOfElements<Vector> &&
         !std::is_same_v<std::remove_const_t<Vector>, std::string>) LocalTensor
    resizable(Vector& values, Dims row_shape) {
  constexpr auto dtype = dtype_of<typename Vector::value_type>::value;
  const auto per_row = detail::elements_per_row(row_shape);
  return resizable(std::make_shared<detail::VectorRows<Vector>>(values, dtype, row_shape, per_row),
                   dtype, row_shape);
}

/// A vector of structs without pointers, as in ragged().
template <class T>
requires std::is_trivially_copyable_v<T> LocalTensor resizable(std::vector<T>& rows, DType dtype,
                                                               Dims row_shape) {
  detail::check_row_bytes(dtype, row_shape, sizeof(T));
  return resizable(std::make_shared<detail::VectorRows<std::vector<T>>>(rows, dtype, row_shape, 1),
                   dtype, row_shape);
}

/// Strings; a restore makes the vector as long as the stored one. (The length of a single
/// std::string may always change.)
LocalTensor resizable(std::vector<std::string>& values);

}  // namespace cairn
