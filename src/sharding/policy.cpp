#include "cairn/sharding.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {

std::string ShardByTaskPolicy::description() const { return "all tensors of a task in one shard"; }

std::vector<Shard> ShardByTaskPolicy::operator()(
    const std::vector<ShardableTensor>& tensors) const {
  if (tensors.empty()) return {};
  std::vector<Shard> shards(1);
  for (const auto& tensor : tensors) {
    if (!shards[0][tensor.key].emplace(tensor.slice, tensor).second) {
      throw Error(Code::sharding,
                  cat("tensor '", tensor.key, "', slice \"",
                      slice_spec_text(tensor.shape, tensor.slice), "\" is given twice to one task"))
          .of_tensor(tensor.key);
    }
  }
  return shards;
}

}  // namespace cairn
