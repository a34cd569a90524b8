#include "cairn/indexed.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/element_types.hpp"

namespace cairn {
namespace {

// Whether a tensor is given whole. A tensor without elements is whole even without a slice.
bool is_whole(const LocalTensor& tensor) {
  if (tensor.unresolved || tensor.strings) return false;
  if (tensor.slices.empty()) return element_count(tensor.shape) == 0;
  return tensor.slices.size() == 1 && tensor.slices[0].box.is_whole(tensor.shape);
}

void require_ids(const Ids& ids) {
  if (!ids) throw Error(Code::invalid_argument, "an indexed tensor was given no ids");
}

}  // namespace

Ids ids(LocalTensor list, IdOptions options) {
  if (list.refused) throw Error(*list.refused);
  const bool is_integer = with_integer(list.dtype, [](auto) {});
  if (list.shape.size() != 1 || !is_whole(list) || !is_integer) {
    throw Error(Code::invalid_argument,
                cat("ids are given as ", dtype_name(list.dtype), " ", shape_text(list.shape),
                    is_whole(list) ? "" : ", not whole"),
                "they are integers, one for each row of this rank",
                "Give a vector, a span or a View of integers, or whole() of one.");
  }
  constexpr auto most = std::int64_t{1} << 62;
  if (options.first < 0 || options.first >= most || options.rows < -1 || options.rows >= most) {
    throw Error(Code::invalid_argument,
                cat("IdOptions has first = ", options.first, " and rows = ", options.rows),
                "first is at least 0, and both are less than 2^62");
  }
  return std::make_shared<const RowIds>(RowIds{std::move(list), std::move(options)});
}

// Shape and slice are those of this rank; the shape of the whole is found when ranks meet.
LocalTensor indexed(Ids ids, LocalTensor rows) {
  require_ids(ids);
  if (rows.refused) return rows;
  if (rows.shape.empty() || !is_whole(rows)) {
    throw Error(Code::invalid_argument,
                cat("the rows of an indexed tensor are given as ", dtype_name(rows.dtype), " ",
                    shape_text(rows.shape), is_whole(rows) ? "" : ", not whole"),
                "they are all of a tensor [number of ids, row shape...]",
                "Give whole() of it, with the number of this rank's ids as its first extent.");
  }
  rows.unresolved = std::make_shared<const Unresolved>(
      Unresolved{Unresolved::Kind::indexed, nullptr, nullptr, {}, std::move(ids)});
  return rows;
}

LocalTensor indexed(Ids ids, std::shared_ptr<Rows> rows, DType dtype, Dims row_shape) {
  require_ids(ids);
  if (!rows) throw Error(Code::invalid_argument, "an indexed tensor has no rows");
  auto tensor = nothing(dtype, std::move(row_shape));
  tensor.shape.insert(tensor.shape.begin(), 0);
  tensor.unresolved = std::make_shared<const Unresolved>(
      Unresolved{Unresolved::Kind::indexed, std::move(rows), nullptr, {}, std::move(ids)});
  return tensor;
}

}  // namespace cairn
