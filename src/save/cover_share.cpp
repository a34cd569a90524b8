#include "save/cover_share.hpp"

#include <algorithm>
#include <cmath>

#include "job/messages.hpp"

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
    auto& order = orders[holder.rank];
    put((whole ? order.to_bring : order.to_write).put(tensor.key).put(holder.box), slice.box);
  }
}

CoverShare share_of(std::vector<CoveredTensor> tensors, int ranks, const SaveFormat& format) {
  CoverShare share;
  share.load.resize(static_cast<std::size_t>(ranks));
  std::vector<int> writers;
  for (auto& tensor : tensors) {
    if (std::any_of(tensor.slices.begin(), tensor.slices.end(),
                    [](const auto& slice) { return slice.holders.size() > 1; })) {
      share.replicated.push_back(std::move(tensor));
      continue;
    }
    for (const auto& slice : tensor.slices) {
      share.load.at(static_cast<std::size_t>(slice.holders.front().rank)) +=
          std::llround(bytes_to_write(tensor, slice));
    }
    writers.assign(tensor.slices.size(), 0);
    assign(tensor, writers, format, share.orders, share.dense);
  }
  return share;
}

void put(WireWriter& out, const std::vector<CoveredTensor>& tensors) {
  out.put(std::uint64_t{tensors.size()});
  for (const auto& tensor : tensors) {
    put(out.put(tensor.key).put(tensor.dtype), tensor.shape);
    out.put(tensor.storage).put(tensor.string_bytes);
    out.put(std::uint64_t{tensor.all_slices}).put(tensor.first_part);
    out.put(std::uint64_t{tensor.slices.size()});
    for (const auto& slice : tensor.slices) {
      put(out, slice.box);
      out.put_row(slice.holders.data(), slice.holders.size());
    }
  }
}

std::vector<CoveredTensor> get_covered(WireReader& in) {
  std::vector<CoveredTensor> tensors;
  for (auto left = in.get<std::uint64_t>(); left > 0; --left) {
    auto& tensor = tensors.emplace_back();
    tensor.key = in.get<std::string>();
    tensor.dtype = in.get<DType>();
    tensor.shape = get_dims(in);
    tensor.storage = in.get<Storage>();
    tensor.string_bytes = in.get<std::int64_t>();
    tensor.all_slices = static_cast<std::size_t>(in.get<std::uint64_t>());
    tensor.first_part = in.get<bool>();
    for (auto slices = in.get<std::uint64_t>(); slices > 0; --slices) {
      auto& slice = tensor.slices.emplace_back();
      slice.box = get_box(in);
      in.get_row(slice.holders);
    }
  }
  return tensors;
}

}  // namespace cairn
