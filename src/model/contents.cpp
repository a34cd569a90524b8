#include "cairn/contents.hpp"

#include <algorithm>

#include "model/keys.hpp"

namespace cairn {

// Tensors ascend by key.
const StoredTensor* CheckpointContents::find(std::string_view key) const {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), key,
                                   [](const auto& t, std::string_view k) { return t.key < k; });
  return at != tensors.end() && at->key == key ? &*at : nullptr;
}

// Rank-private items are described under the key that the application gave, without the rank.
const Description& CheckpointContents::description(std::string_view key) const {
  static const Description nothing;
  if (!meta) return nothing;
  const auto& said = meta->descriptions.by_key;
  auto at = said.find(std::string(key));
  if (at == said.end()) at = said.find(std::string(without_rank(key)));
  return at == said.end() ? nothing : at->second;
}

std::int64_t StoredGaps::elements() const {
  std::int64_t all = 0;
  for (const auto& box : boxes) all += box.count();
  return all;
}

std::int64_t CheckpointContents::total_bytes() const {
  std::int64_t total = 0;
  for (const auto& tensor : tensors) {
    for (const auto& slice : tensor.slices) total += slice.stored_bytes;
  }
  return total;
}

}  // namespace cairn
