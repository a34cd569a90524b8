#pragma once
/// Rows that have global ids: nodes and cells of unstructured meshes, unknowns of finite elements,
/// particles with identities. Each rank saves its rows in any order. In a restore it gets the rows
/// of the ids that it has then. The rows are stored in the order of their ids, as one ordinary
/// tensor.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/ragged.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// How ids number rows. The same on all ranks.
struct IdOptions {
  /// The id of the tensor's row 0; ignored with an ids_key.
  std::int64_t first = 0;
  /// The number of rows of the tensors: ids are first … first + rows - 1. -1: in a save the number
  /// of ids on all ranks, in a restore the number of stored rows.
  std::int64_t rows = -1;
  /// Not empty: ids may have gaps. A save stores the ids of all ranks, ascending, as an int64
  /// tensor of this key, and the rows in the same order. A restore looks ids up in this tensor.
  std::string ids_key = {};
};

/// The ids of this rank's rows. Tensors whose rows have the same ids share them.
struct RowIds {
  LocalTensor list;  ///< of any integer dtype, whole on its rank
  IdOptions options;
};
using Ids = std::shared_ptr<const RowIds>;

/// Ids that each save and restore reads anew from `list`: whole() of a vector or View that is given
/// by its address may change and grow. A negative id, or one of 2^63 or more, is an error of that
/// save or restore. If ids have not changed on any rank, a save or restore reuses the plan of the
/// one before. Throws invalid_argument unless `list` is a whole tensor of one dimension and of
/// integers.
Ids ids(LocalTensor list, IdOptions options = {});

/// A vector of integers at this address, with the values that it has at each save and restore.
template <detail::VectorOfNumbers Vector>
Ids ids(const Vector* list, IdOptions options = {}) {
  return ids(whole(list), std::move(options));
}
template <Element T, std::size_t N>
Ids ids(std::span<T, N> list, IdOptions options = {}) {
  return ids(whole(list.data(), {static_cast<std::int64_t>(list.size())}), std::move(options));
}

/// This rank's rows of a tensor [rows, row shape...], one for each of its ids. `rows` is all of a
/// tensor [number of ids, row shape...] in any memory: whole() of a pointer, vector or View, or
/// each_time(). A rank need not know which rows the others have:
///
/// - In a save each id is on one rank, once (rows that several ranks hold, ghosts, are left out
///   by the program); without an ids_key no id may be missing. Else the save throws on all ranks,
///   and names an id and its ranks.
/// - In a restore a rank gets the rows of its ids; other ranks may have the same ids. An id that
///   is not stored is an error that names it.
///
/// A rank without rows gives a tensor of no rows, or leaves the tensor out. Of the tensors that
/// share ids, a rank gives all or none. Each rank takes memory for its share of the rows until the
/// call returns. `Storage::automatic` means dense here.
LocalTensor indexed(Ids ids, LocalTensor rows);

/// The same for rows in memory that a restore resizes to the number of ids.
LocalTensor indexed(Ids ids, std::shared_ptr<Rows> rows, DType dtype, Dims row_shape);

/// A vector of numbers, or of arrays of them: [rows] or [rows, N]. It must stay at its address as
/// long as the State is used; a const one is for saving only.
template <class Vector>
requires detail::VectorOfElements<Vector> LocalTensor indexed(Ids ids, Vector& rows) {
  constexpr auto dtype = dtype_of<detail::Stored<Vector>>::value;
  auto shape = detail::Columns<typename Vector::value_type>::shape();
  return indexed(std::move(ids),
                 std::make_shared<detail::VectorRows<Vector>>(rows, dtype, shape, 1), dtype, shape);
}

/// A flat vector of rows of this shape: [rows, row_shape...].
template <class Vector>
requires detail::VectorOfElements<Vector> LocalTensor indexed(Ids ids, Vector& values,
                                                              Dims row_shape) {
  constexpr auto dtype = dtype_of<typename Vector::value_type>::value;
  const auto per_row = detail::elements_per_row(row_shape);
  return indexed(std::move(ids),
                 std::make_shared<detail::VectorRows<Vector>>(values, dtype, row_shape, per_row),
                 dtype, row_shape);
}

/// A vector of structs without pointers, as in ragged().
template <class T>
requires std::is_trivially_copyable_v<T> LocalTensor indexed(Ids ids, std::vector<T>& rows,
                                                             DType dtype, Dims row_shape) {
  detail::check_row_bytes(dtype, row_shape, sizeof(T));
  return indexed(std::move(ids),
                 std::make_shared<detail::VectorRows<std::vector<T>>>(rows, dtype, row_shape, 1),
                 dtype, row_shape);
}

/// Memory that keeps its size.
template <Element T, std::size_t N>
LocalTensor indexed(Ids ids, std::span<T, N> values, Dims row_shape = {}) {
  Dims shape = row_shape;
  shape.insert(shape.begin(),
               detail::whole_rows(values.size(), detail::elements_per_row(row_shape)));
  return indexed(std::move(ids), whole(values.data(), std::move(shape)));
}

}  // namespace cairn
