#include "cairn/contents.hpp"

#include <algorithm>

namespace cairn {

const StoredTensor* CheckpointContents::find(std::string_view key) const {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), key,
                                   [](const auto& t, std::string_view k) { return t.key < k; });
  return at != tensors.end() && at->key == key ? &*at : nullptr;
}

std::int64_t CheckpointContents::total_bytes() const {
  std::int64_t total = 0;
  for (const auto& tensor : tensors) {
    for (const auto& slice : tensor.slices) total += slice.size;
  }
  return total;
}

}  // namespace cairn
