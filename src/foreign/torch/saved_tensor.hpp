#pragma once
/// What torch.save says of one tensor in its archive (data.pkl): where its elements lie in which
/// member. And what it says of a plain value.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/attributes.hpp"
#include "cairn/box.hpp"
#include "cairn/dtype.hpp"

namespace cairn::torch {

/// What stores the elements of one of torch's dtypes.
struct StoredDType {
  DType dtype{};
  /// Of one that no checkpoint has (model/dtype_attribute.hpp) the name, else empty.
  std::string_view stored_as_bytes = {};
  bool operator==(const StoredDType&) const = default;
};
/// torch's name of it, without "torch."; nothing for what is not stored.
std::optional<StoredDType> dtype_of_torch(std::string_view name);

struct SavedTensor {
  StoredDType type;
  std::string storage;     ///< its member is data/STORAGE
  Dims shape, strides;     ///< elements; no stride is negative
  std::int64_t first = 0;  ///< element of the storage
  std::int64_t last = -1;  ///< likewise; before the first one if the tensor is empty
};

/// Throws data_loss, and unsupported for whatever is no plain tensor.
SavedTensor parse_saved_tensor(std::string_view pickle);

/// A number, a text, None or a list or tuple of such; nothing for all else.
std::optional<Attribute> parse_saved_value(std::string_view pickle);

}  // namespace cairn::torch
