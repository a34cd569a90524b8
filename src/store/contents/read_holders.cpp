#include "store/contents/read_holders.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {

std::optional<hdf5::Holders> read_holders(const OpenCheckpoint& checkpoint) {
  const auto& contents = *checkpoint;
  if (contents.format != Format::hdf5) return std::nullopt;
  const auto stored = std::find_if(contents.own.begin(), contents.own.end(),
                                   [](const auto& one) { return one.key == slices_key; });
  if (stored == contents.own.end()) return std::nullopt;
  auto holders = hdf5::decode_holders(checkpoint.read(*stored, stored->slices.at(0)));
  for (const auto& [key, slices] : holders.tensors) {
    const auto* tensor = contents.find(key);
    for (const auto& slice : slices) {
      const auto whole = tensor ? Box::whole(tensor->shape) : Box();
      if (tensor && slice.box.start.size() == whole.start.size() &&
          (slice.box == whole || intersect(slice.box, whole) == slice.box)) {
        continue;
      }
      throw Error(Code::data_loss, "what is stored of the holders of slices is damaged",
                  cat(box_text(slice.box), " is no slice of a tensor '", key, '\''))
          .at(data_path(contents, 0).string());
    }
  }
  return holders;
}

// For maps of who held what. Such slices have no place in a file and cannot be read.
std::optional<StoredTensor> cut_as_held(const StoredTensor& tensor, const hdf5::Holders& holders) {
  const auto at = holders.tensors.find(tensor.key);
  if (at == holders.tensors.end()) return std::nullopt;
  auto held = tensor;
  held.slices.clear();
  for (const auto& one : at->second) {
    auto& slice = held.slices.emplace_back();
    slice.box = one.box;
    slice.file = static_cast<std::int32_t>(one.task);
    slice.stored_bytes = slice.raw_bytes =
        one.box.count() * static_cast<std::int64_t>(dtype_size(tensor.dtype));
  }
  return held;
}

}  // namespace cairn
