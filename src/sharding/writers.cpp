#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "sharding/coverage.hpp"

namespace cairn {

std::vector<std::vector<int>> choose_writers(const std::vector<CoveredTensor>& tensors, int ranks,
                                             const SliceBytes& slice_bytes) {
  struct Group {
    double bytes;
    std::size_t tensor, slice;
  };
  std::vector<Group> groups;
  std::vector<double> load(static_cast<std::size_t>(std::max(ranks, 0)), 0.0);
  std::vector<std::vector<int>> writers(tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto& slices = tensors[t].slices;
    const auto element =
        static_cast<double>(std::max<std::size_t>(dtype_size(tensors[t].dtype), 1));
    writers[t].assign(slices.size(), 0);
    for (std::size_t s = 0; s < slices.size(); ++s) {
      const auto& holders = slices[s].holders;
      for (const auto& holder : holders) {
        if (holder.rank < 0 || holder.rank >= ranks) {
          throw Error(Code::internal, cat("tensor '", tensors[t].key, "' is held by rank ",
                                          holder.rank, " of ", ranks))
              .of_tensor(tensors[t].key);
        }
      }
      if (holders.empty()) {
        throw Error(Code::internal, cat("a slice of tensor '", tensors[t].key, "' has no holder"))
            .of_tensor(tensors[t].key);
      }
      const double bytes = slice_bytes ? static_cast<double>(slice_bytes(t, s))
                                       : static_cast<double>(slices[s].box.count()) * element;
      if (holders.size() == 1) {
        load[static_cast<std::size_t>(holders[0].rank)] += bytes;
      } else {
        groups.push_back({bytes, t, s});
      }
    }
  }
  // Largest first: what comes last is small enough to even things out.
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
  for (const auto& group : groups) {
    const auto& holders = tensors[group.tensor].slices[group.slice].holders;
    const auto load_of = [&](const auto& holder) -> double& {
      return load[static_cast<std::size_t>(holder.rank)];
    };
    const auto least =
        std::min_element(holders.begin(), holders.end(),
                         [&](const auto& a, const auto& b) { return load_of(a) < load_of(b); });
    load_of(*least) += group.bytes;
    writers[group.tensor][group.slice] = static_cast<int>(least - holders.begin());
  }
  return writers;
}

}  // namespace cairn
