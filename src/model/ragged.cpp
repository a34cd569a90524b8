#include "cairn/ragged.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

// The first extent, the number of rows, is 0 until ranks meet.
LocalTensor unresolved(DType dtype, Dims row_shape, Unresolved what) {
  auto tensor = nothing(dtype, std::move(row_shape));
  tensor.shape.insert(tensor.shape.begin(), 0);
  tensor.unresolved = std::make_shared<const Unresolved>(std::move(what));
  return tensor;
}

void require_rows(const std::shared_ptr<Rows>& rows) {
  if (!rows) throw Error(Code::invalid_argument, "a ragged or rank-private tensor has no rows");
}

}  // namespace

LocalTensor ragged(std::shared_ptr<Rows> rows, DType dtype, Dims row_shape,
                   RowDistribution distribution) {
  require_rows(rows);
  return unresolved(dtype, std::move(row_shape),
                    {Unresolved::Kind::ragged, std::move(rows), std::move(distribution), {}});
}

LocalTensor rank_private(std::shared_ptr<Rows> rows, DType dtype, Dims row_shape,
                         PrivateOptions options) {
  require_rows(rows);
  return unresolved(dtype, std::move(row_shape),
                    {Unresolved::Kind::rank_private, std::move(rows), nullptr, std::move(options)});
}

LocalTensor rank_private(LocalTensor tensor, PrivateOptions options) {
  if (tensor.refused) return tensor;
  const bool is_whole =
      tensor.strings || (tensor.slices.size() == 1 && tensor.slices[0].box.is_whole(tensor.shape));
  if (!is_whole || tensor.unresolved) {
    throw Error(
        Code::invalid_argument,
        cat("a rank-private item of shape ", shape_text(tensor.shape), " is not whole on its rank"),
        "it belongs to one rank alone",
        "Give it with whole(), or as a slice that begins at 0 and has the full shape.");
  }
  tensor.unresolved = std::make_shared<const Unresolved>(
      Unresolved{Unresolved::Kind::rank_private, nullptr, nullptr, std::move(options)});
  return tensor;
}

namespace detail {

std::int64_t whole_rows(std::size_t elements, std::int64_t per_row) {
  const auto count = static_cast<std::int64_t>(elements);
  if (count % per_row == 0) return count / per_row;
  throw Error(Code::invalid_argument,
              cat("a vector of ", count, " elements is given as rows of ", per_row),
              "its last row is not whole");
}

// Rows without elements are refused: a vector's length could not tell how many there are.
std::int64_t elements_per_row(const Dims& row_shape) {
  const auto count = element_count(row_shape);
  if (count > 0) return count;
  throw Error(Code::invalid_argument,
              cat("a vector is given as rows of shape ", shape_text(row_shape)),
              "how many rows there are cannot be told from its length");
}

void check_row_bytes(DType dtype, const Dims& row_shape, std::size_t bytes) {
  const auto stored = element_count(row_shape) * static_cast<std::int64_t>(dtype_size(dtype));
  if (stored == static_cast<std::int64_t>(bytes)) return;
  throw Error(Code::invalid_argument,
              cat("rows of ", bytes, " bytes are given as ", dtype_name(dtype), " ",
                  shape_text(row_shape), ", which is ", stored, " bytes"),
              "every byte of a row is stored", "uint8 {sizeof(T)} fits any struct.");
}

}  // namespace detail
}  // namespace cairn
