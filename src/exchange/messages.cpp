#include "exchange/messages.hpp"

namespace cairn {

void put(WireWriter& out, const Dims& dims) { out.put_row(dims.data(), dims.size()); }

Dims get_dims(WireReader& in) {
  Dims dims;
  in.get_row(dims);
  return dims;
}

void put(WireWriter& out, const Box& box) {
  put(out, box.start);
  put(out, box.extent);
}

Box get_box(WireReader& in) {
  Box box;
  in.get_row(box.start);
  in.get_row(box.extent);
  return box;
}

void put(WireWriter& out, const std::vector<Declaration>& declarations) {
  for (const auto& one : declarations) {
    put(out.put(one.key).put(one.dtype), one.shape);
    out.put(one.rank).put(one.storage);
    out.put(one.string_bytes).put(std::uint64_t{one.fills});
    out.put(std::uint64_t{one.boxes.size()});
    for (const auto& box : one.boxes) put(out, box);
  }
}

std::vector<Declaration> get_declarations(WireReader& in) {
  std::vector<Declaration> declarations;
  while (!in.empty()) {
    Declaration one;
    one.key = in.get<std::string>();
    one.dtype = in.get<DType>();
    one.shape = get_dims(in);
    one.rank = in.get<int>();
    one.storage = in.get<Storage>();
    one.string_bytes = in.get<std::int64_t>();
    one.fills = in.get<std::uint64_t>();
    auto left = in.get<std::uint64_t>();
    one.boxes.reserve(in.room_for(left));
    for (; left > 0; --left) one.boxes.push_back(get_box(in));
    declarations.push_back(std::move(one));
  }
  return declarations;
}

void put(WireWriter& out, const StoredSlice& slice) {
  put(out, slice.box);
  out.put(std::uint64_t{slice.dash.size()});
  for (const bool dash : slice.dash) out.put(dash);
  out.put(slice.file).put(slice.offset).put(slice.size).put(slice.crc32c);
}

StoredSlice get_slice(WireReader& in) {
  StoredSlice slice;
  slice.box = get_box(in);
  slice.dash = in.get_all<bool>();
  slice.file = in.get<std::int32_t>();
  slice.offset = in.get<std::int64_t>();
  slice.size = in.get<std::int64_t>();
  slice.crc32c = in.get<std::uint32_t>();
  return slice;
}

void put(WireWriter& out, const std::vector<StoredTensor>& tensors) {
  for (const auto& tensor : tensors) {
    put(out.put(tensor.key).put(tensor.dtype), tensor.shape);
    out.put(tensor.sliced);
    out.put(std::uint64_t{tensor.slices.size()});
    for (const auto& slice : tensor.slices) put(out, slice);
  }
}

std::vector<StoredTensor> get_stored(WireReader& in) {
  std::vector<StoredTensor> tensors;
  while (!in.empty()) {
    StoredTensor tensor;
    tensor.key = in.get<std::string>();
    tensor.dtype = in.get<DType>();
    tensor.shape = get_dims(in);
    tensor.sliced = in.get<bool>();
    auto left = in.get<std::uint64_t>();
    tensor.slices.reserve(in.room_for(left));
    for (; left > 0; --left) tensor.slices.push_back(get_slice(in));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void put(WireWriter& out, const bundle::IndexEntry& entry) {
  out.put(entry.key).put(entry.value).put(entry.slices).put(entry.files);
  out.put(entry.part).put(entry.head);
}

bundle::IndexEntry get_index_entry(WireReader& in) {
  bundle::IndexEntry entry;
  entry.key = in.get<std::string>();
  entry.value = in.get<std::string>();
  entry.slices = in.get<std::string>();
  entry.files = in.get<int>();
  entry.part = in.get<int>();
  entry.head = in.get<std::int32_t>();
  return entry;
}

}  // namespace cairn
