#pragma once
/// Reads data.pkl in an archive of torch.save: of one tensor, in which member its elements lie, and
/// where in it; or a plain value.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/attributes.hpp"
#include "cairn/box.hpp"
#include "cairn/dtype.hpp"

namespace cairn::torch {

/// The dtype in which a checkpoint stores the elements of one of torch's dtypes.
struct StoredDType {
  DType dtype{};
  /// torch's name of a dtype that no checkpoint has (model/dtype_attribute.hpp), else empty.
  std::string_view stored_as_bytes = {};
  bool operator==(const StoredDType&) const = default;
};
/// `name` is torch's, without "torch.". Returns nothing for a dtype that is not stored.
std::optional<StoredDType> dtype_of_torch(std::string_view name);

struct SavedTensor {
  StoredDType type;
  std::string storage;     ///< the elements are in the member data/STORAGE
  Dims shape, strides;     ///< in elements; no stride is negative
  std::int64_t first = 0;  ///< number of its first element in the storage
  std::int64_t last = -1;  ///< of the last one in memory; first - 1 if the tensor is empty
};

/// Throws data_loss, and unsupported for whatever is no plain tensor.
SavedTensor parse_saved_tensor(std::string_view pickle);

/// A finite number, boolean, text, None, or a list or tuple of such; nothing for anything else,
/// nor for a list with much more text than the pickle has.
/// Throws data_loss.
std::optional<Attribute> parse_saved_value(std::string_view pickle);

}  // namespace cairn::torch
