// Turns proved tensors into orders: who writes a slice, or brings it to a dense tensor.
#include "session/save/cover_share.hpp"

#include <algorithm>
#include <cmath>

#include "exchange/messages.hpp"

namespace cairn {

bool is_dense(const CoveredTensor& tensor, const SaveFormat& format) {
  if (dtype_size(tensor.dtype) == 0 || tensor.slices.front().box.empty()) return false;
  return format.stores_dense(tensor, tensor.all_slices ? tensor.all_slices : tensor.slices.size());
}

void assign(const CoveredTensor& tensor, std::span<const int> writers, const SaveFormat& format,
            Orders& orders, std::vector<DenseTensor>& dense) {
  const bool whole = is_dense(tensor, format);
  if (whole && tensor.first_part) dense.push_back({tensor.key, tensor.dtype, tensor.shape, {}});
  for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
    const auto& slice = tensor.slices[s];
    const auto& holder = slice.holders[static_cast<std::size_t>(writers[s])];
    if (holder.fill && !whole) continue;  // the fill of a gap is not written if slices are stored
    auto& order = orders[holder.rank];
    (whole ? order.to_bring : order.to_write).add({tensor.key, holder.box, slice.box});
  }
}

CoverShare share_of(std::vector<CoveredTensor> tensors, int ranks, const SaveFormat& format) {
  CoverShare share;
  share.load.resize(static_cast<std::size_t>(ranks));
  std::vector<int> writers;
  for (auto& tensor : tensors) {
    const auto replicated =
        std::count_if(tensor.slices.begin(), tensor.slices.end(),
                      [](const auto& slice) { return slice.holders.size() > 1; });
    if (replicated > 0) {
      share.replicated_slices += replicated;
      share.replicated.push_back(std::move(tensor));
      continue;
    }
    for (const auto& slice : tensor.slices) {
      // Slices with one holder leave no choice, so that they count before replicated slices are
      // dealt.
      share.load.at(static_cast<std::size_t>(slice.holders.front().rank)) +=
          std::llround(bytes_to_write(tensor, slice));
    }
    writers.assign(tensor.slices.size(), 0);
    assign(tensor, writers, format, share.orders, share.dense);
  }
  return share;
}

}  // namespace cairn
