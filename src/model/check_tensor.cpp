#include "model/check_tensor.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "model/box_in_shape.hpp"
#include "model/box_index.hpp"
#include "model/follow.hpp"
#include "model/sparse.hpp"

namespace cairn {
namespace {

// Whether a rank must give a tensor whole: if it is rank-private or indexed, unless its rows can be
// resized by a restore.
bool must_be_whole(const LocalTensor& tensor) {
  return tensor.unresolved && !tensor.unresolved->rows;
}

[[noreturn]] void refuse_tensor(const std::string& key, std::string problem, std::string reason,
                                std::string way_out = "") {
  throw Error(Code::invalid_argument, cat("tensor '", key, "' ", problem), std::move(reason),
              std::move(way_out))
      .of_tensor(key);
}

// Refuses choices that do not go together.
void check_kind(const std::string& key, const LocalTensor& tensor) {
  if (tensor.strings && tensor.dtype != DType::string) {
    refuse_tensor(key, cat("has strings but dtype ", dtype_name(tensor.dtype)), "");
  }
  if (tensor.dtype == DType::variant) refuse_tensor(key, "is a variant", "");
  if (!tensor.sparse) return;
  if (tensor.unresolved || tensor.resizes || tensor.strings) {
    refuse_tensor(key, "is sparse",
                  "that is for slices of numbers, neither for rows nor for strings");
  }
  try {
    fill_element(tensor);
  } catch (const Error& error) {
    throw named(error, key);
  }
}

// Bytes have to be countable, for the whole tensor and so for each slice.
void check_size(const std::string& key, const LocalTensor& tensor) {
  const auto size = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  if (element_count(tensor.shape) <= INT64_MAX / std::max<std::int64_t>(size, 1)) return;
  refuse_tensor(key, cat("of shape ", shape_text(tensor.shape), " has 2^63 bytes or more"),
                "sizes are signed 64-bit");
}

void check_slice(const std::string& key, const Dims& shape, const LocalSlice& slice) {
  const auto& box = slice.box;
  const auto& dash = slice.dash;
  if (!slice.memory) refuse_tensor(key, "has a slice without memory", "");
  // Throws for negative extents, and for more elements than can be counted.
  element_count(box.extent);
  const auto name = [&] { return cat(shape_text(shape), ": ", box_text(box)); };
  if (!lies_inside(box, shape)) {
    refuse_tensor(key, cat(name(), " is outside of it"), "a slice is given in global coordinates");
  }
  const bool one_each = dash.empty() || dash.size() == box.rank();
  if (!one_each || !is_whole_where_dashed(box, dash, shape)) {
    refuse_tensor(key, cat(name(), " is called whole in a dimension where it is not"),
                  "a slice may be spelled - only where it has all indices");
  }
}

// Strings have no slices, and a tensor without elements may have none.
void check_is_whole(const std::string& key, const LocalTensor& tensor) {
  if (tensor.slices.empty()) return;
  if (tensor.slices.size() == 1 && tensor.slices[0].box.is_whole(tensor.shape)) return;
  refuse_tensor(key, cat(shape_text(tensor.shape), " is not whole on its rank"),
                tensor.unresolved->kind == Unresolved::Kind::indexed
                    ? "all rows of an indexed tensor on a rank are given together"
                    : "a rank-private item belongs to one rank alone");
}

// Slices of one rank must not overlap; those of different ranks are compared in the proof of
// coverage.
void check_disjoint(const std::string& key, const LocalTensor& tensor) {
  if (tensor.slices.size() < 2) return;
  std::vector<Box> boxes;
  for (const auto& slice : tensor.slices) boxes.push_back(slice.box);
  if (const auto pair = first_overlap(boxes)) {
    refuse_tensor(
        key,
        cat(shape_text(tensor.shape), ": slices ", pair->first, " and ", pair->second,
            " overlap in ", box_text(*intersect(boxes[pair->first], boxes[pair->second]))),
        "an element would be stored twice", "Leave halos out of the slices.");
  }
}

}  // namespace

void check_tensor(const std::string& key, const LocalTensor& tensor) {
  if (tensor.refused) throw named(*tensor.refused, key);
  check_kind(key, tensor);
  check_size(key, tensor);
  for (const auto& slice : tensor.slices) check_slice(key, tensor.shape, slice);
  if (must_be_whole(tensor)) check_is_whole(key, tensor);
  check_disjoint(key, tensor);
}

}  // namespace cairn
