#pragma once
/// Tensors for formats of other programs that store each as one array.
#include <string>
#include <string_view>
#include <vector>

#include "store/contents/open_checkpoint.hpp"

namespace cairn {

struct WholeTensor {
  const StoredTensor* tensor;
  std::string key;  ///< key in that format
  std::int64_t bytes() const;
};

/// The tensors under a path (UNDER/KEY as KEY; empty: all), in the order of keys. Throws not_found
/// if there is none; data_loss if one cannot be read; unsupported, naming `format`, for strings,
/// for dtypes that `has` does not know, for keys that are not UTF-8, and for gaps.
std::vector<WholeTensor> whole_tensors(const CheckpointContents&, const std::string& under,
                                       std::string_view format, bool (*has)(DType));

}  // namespace cairn
