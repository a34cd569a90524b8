#pragma once
/// Tensors for formats of others that have each one as one array.
#include <string>
#include <string_view>
#include <vector>

#include "store/contents/open_checkpoint.hpp"

namespace cairn {

struct WholeTensor {
  const StoredTensor* tensor;
  std::string key;  ///< there
  std::int64_t bytes() const;
};

/// The tensors under a path (UNDER/KEY as KEY; empty: all), in the order of keys. Throws not_found
/// if there is none; data_loss for one that cannot be read; unsupported, naming `format`, for
/// texts, dtypes that `has` does not know, keys that are not UTF-8, and gaps.
std::vector<WholeTensor> whole_tensors(const CheckpointContents&, const std::string& under,
                                       std::string_view format, bool (*has)(DType));

/// Its elements, row-major and little-endian, each byte checked.
std::string read_whole(const OpenCheckpoint&, const StoredTensor&);

}  // namespace cairn
