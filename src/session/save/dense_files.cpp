// Asks the sharding policy which data files dense tensors go to.
#include <algorithm>

#include "session/save/call_policy.hpp"
#include "session/save/dense.hpp"

namespace cairn {
namespace {

std::vector<ShardableTensor> as_policies_see(const RefreshedState& state,
                                             const std::vector<DenseTensor>& dense) {
  const auto& names = state.objects().names;
  std::vector<ShardableTensor> tensors;
  for (const auto& one : dense) {
    auto& tensor = tensors.emplace_back();
    const auto named = names.find(one.key);
    tensor.name = named == names.end() ? one.key : named->second;
    tensor.key = one.key;
    tensor.dtype = one.dtype;
    tensor.shape = one.shape;
    tensor.slice = Box::whole(one.shape);
    tensor.bytes = tensor.slice.count() * static_cast<std::int64_t>(dtype_size(one.dtype));
  }
  return tensors;
}

void check(const std::vector<int>& files, const std::vector<DenseTensor>& dense,
           const std::string& description) {
  const auto what = cat("the checkpoint sharding callback '", description, "' gave ");
  constexpr const char* way_out = "ShardingCallback::dense_files returns a number for each tensor.";
  if (files.size() != dense.size()) {
    throw Error(Code::sharding,
                cat(what, files.size(), " files to ", dense.size(), " dense tensors"), "", way_out);
  }
  for (std::size_t t = 0; t < dense.size(); ++t) {
    if (files[t] >= 0) continue;
    throw Error(Code::sharding, cat(what, "the dense tensor '", dense[t].key, "' file ", files[t]),
                "files are numbered from 0", way_out)
        .of_tensor(dense[t].key);
  }
}

}  // namespace

void choose_dense_files(const Sharding& sharding, const RefreshedState& state,
                        std::vector<DenseTensor>& dense) {
  if (dense.empty()) return;
  const auto& policy = policy_of(sharding.policy);
  const auto tensors = as_policies_see(state, dense);
  const auto description = policy.description();
  const auto files = call_policy(description, cat(dense.size(), " dense tensors"),
                                 [&] { return policy.dense_files(tensors); });
  check(files, dense, description);
  for (std::size_t t = 0; t < dense.size(); ++t) dense[t].file = files[t];
  std::stable_sort(dense.begin(), dense.end(),
                   [](const auto& a, const auto& b) { return a.file < b.file; });
  // The policy's numbers may have gaps; those of files have none.
  int number = 0, last = dense.front().file;
  for (auto& tensor : dense) {
    number += tensor.file != last;
    last = std::exchange(tensor.file, number);
  }
}

}  // namespace cairn
