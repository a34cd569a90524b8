#include "tools/whole_tensor.hpp"

#include <span>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/slice_memory.hpp"
#include "layout/bundle/stored_strings.hpp"

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

std::string read_whole(const OpenCheckpoint& source, const StoredTensor& tensor) {
  const auto size =
      static_cast<std::size_t>(element_count(tensor.shape)) * dtype_size(tensor.dtype);
  std::string bytes;
  for (const auto& slice : tensor.slices) {
    auto read = source.read(tensor, slice);
    if (source->big_endian) {
      bundle::swap_bytes(std::as_writable_bytes(std::span(read)), dtype_swap_unit(tensor.dtype));
    }
    if (tensor.slices.size() == 1 && read.size() == size) return read;
    bytes.resize(size);
    host_memory(tensor.dtype, bytes.data(), bytes.data(), tensor.shape, {})
        ->write(slice.box, reinterpret_cast<const std::byte*>(read.data()));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace cairn
