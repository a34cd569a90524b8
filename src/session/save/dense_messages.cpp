// How dense tensors travel between ranks.
#include "exchange/messages.hpp"
#include "session/save/dense.hpp"

namespace cairn {

void put(WireWriter& out, const std::vector<DenseTensor>& tensors) {
  for (const auto& tensor : tensors) {
    put(out.put(tensor.key).put(tensor.dtype), tensor.shape);
    out.put(tensor.file);
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
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace cairn
