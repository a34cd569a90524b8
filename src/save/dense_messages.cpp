// How dense tensors travel between ranks.
#include "job/messages.hpp"
#include "save/dense.hpp"

namespace cairn {

void put(WireWriter& out, const std::vector<DenseTensor>& tensors) {
  for (const auto& tensor : tensors) {
    put(out.put(tensor.key).put(tensor.dtype), tensor.shape);
    out.put(tensor.file).put(std::uint64_t{tensor.parts.size()});
    for (const auto& part : tensor.parts) {
      put(out, part.box);
      out.put(part.rank).put(part.slice);
    }
  }
}

std::vector<DenseTensor> get_dense(WireReader& in) {
  std::vector<DenseTensor> tensors;
  while (!in.empty()) {
    DenseTensor tensor;
    tensor.key = in.get<std::string>();
    tensor.dtype = in.get<DType>();
    tensor.shape = get_dims(in);
    tensor.file = in.get<int>();
    auto left = in.get<std::uint64_t>();
    tensor.parts.reserve(in.room_for(left));
    for (; left > 0; --left) {
      auto& part = tensor.parts.emplace_back();
      part.box = get_box(in);
      part.rank = in.get<int>();
      part.slice = in.get<int>();
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace cairn
