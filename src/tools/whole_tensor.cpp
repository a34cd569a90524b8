#include "tools/whole_tensor.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

void require_exportable(const CheckpointContents& source, const StoredTensor& tensor,
                        std::string_view format, bool (*has)(DType)) {
  if (!tensor.problem.empty()) {
    throw Error(Code::data_loss, cat("tensor '", tensor.key, "' cannot be read"), tensor.problem,
                "cairn verify names everything that is damaged.")
        .at(source.prefix)
        .of_tensor(tensor.key);
  }
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::unsupported, cat("tensor '", tensor.key, "' has no place in ", format), what,
                "Choose others with --under PATH.")
        .of_tensor(tensor.key);
  };
  if (tensor.dtype == DType::string) refuse("it is a text");
  if (!has(tensor.dtype)) refuse(cat("the format has no ", dtype_name(tensor.dtype)));
  if (!is_utf8(tensor.key)) refuse("its key is not UTF-8");
  if (tensor.gaps && tensor.sliced) refuse("no rank held all of it");
  require_stored(tensor, {Box::whole(tensor.shape)});
  for (const auto& slice : tensor.slices) decoder_of(source, tensor, slice);
}

}  // namespace

std::int64_t WholeTensor::bytes() const {
  return element_count(tensor->shape) * static_cast<std::int64_t>(dtype_size(tensor->dtype));
}

std::vector<WholeTensor> whole_tensors(const CheckpointContents& source, const std::string& under,
                                       std::string_view format, bool (*has)(DType)) {
  std::vector<WholeTensor> all;
  for (const auto& tensor : source.tensors) {
    const auto inside = under.empty() || tensor.key.starts_with(under + "/");
    if (!inside || tensor.key == object_graph_key) continue;
    require_exportable(source, tensor, format, has);
    all.push_back({&tensor, under.empty() ? tensor.key : tensor.key.substr(under.size() + 1)});
  }
  if (all.empty()) {
    throw Error(Code::not_found, cat("there is no tensor under '", under, "' in ", source.prefix),
                "", "cairn show lists the keys.");
  }
  return all;
}

}  // namespace cairn
