#include <algorithm>
#include <cmath>
#include <numeric>

#include "sharding/coverage.hpp"

namespace cairn {
namespace {

// A rank with less above the mean is not worth a cut, nor is a slice that is a small part of it.
constexpr double tolerated = 1.1, small_part = 0.25;

/// In about equal pieces along its first dimension, or the first one that is long enough.
std::vector<Box> cut(const Box& box, std::int64_t pieces) {
  std::size_t dim = 0;
  for (std::size_t d = 0; d < box.rank() && box.extent[dim] < pieces; ++d) {
    if (box.extent[d] > box.extent[dim]) dim = d;
  }
  if (box.rank() == 0) return {box};
  const auto extent = box.extent[dim];
  pieces = std::min(pieces, extent);
  std::vector<Box> all;
  for (std::int64_t i = 0, start = 0; i < pieces; ++i) {
    all.push_back(box);
    all.back().start[dim] += start;
    all.back().extent[dim] = extent / pieces + (i < extent % pieces);
    start += all.back().extent[dim];
  }
  return all;
}

}  // namespace

bool share_replicas(std::vector<CoveredTensor>& tensors, const Writers& writers, int ranks,
                    const std::vector<double>& others, std::int64_t least_bytes) {
  auto load = others;
  load.resize(static_cast<std::size_t>(ranks));
  const auto writer_of = [&](std::size_t t, std::size_t s) {
    const auto& holders = tensors[t].slices[s].holders;
    return static_cast<std::size_t>(holders[static_cast<std::size_t>(writers[t][s])].rank);
  };
  double total = std::accumulate(load.begin(), load.end(), 0.0);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::size_t s = 0; s < tensors[t].slices.size(); ++s) {
      const auto bytes = bytes_to_write(tensors[t], tensors[t].slices[s]);
      load[writer_of(t, s)] += bytes;
      total += bytes;
    }
  }
  const double mean = total / ranks;
  if (*std::max_element(load.begin(), load.end()) <= tolerated * mean) return false;
  bool any = false;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    auto& tensor = tensors[t];
    if (dtype_size(tensor.dtype) == 0 || tensor.storage == Storage::sliced) continue;
    std::vector<HeldSlice> slices;
    for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
      const auto& slice = tensor.slices[s];
      const auto bytes = bytes_to_write(tensor, slice);
      std::int64_t pieces = 1;
      if (slice.holders.size() > 1 && load[writer_of(t, s)] > tolerated * mean &&
          bytes > small_part * mean) {
        pieces = std::min({static_cast<std::int64_t>(slice.holders.size()),
                           static_cast<std::int64_t>(bytes / static_cast<double>(least_bytes)),
                           static_cast<std::int64_t>(std::ceil(bytes / (small_part * mean)))});
      }
      if (pieces < 2) {
        slices.push_back(slice);
        continue;
      }
      for (auto& box : cut(slice.box, pieces)) slices.push_back({std::move(box), slice.holders});
    }
    if (slices.size() == tensor.slices.size()) continue;
    std::sort(slices.begin(), slices.end(),
              [](const auto& a, const auto& b) { return a.box < b.box; });
    tensor.slices = std::move(slices);
    any = true;
  }
  return any;
}

}  // namespace cairn
