// Completes an HDF5 file, in which the save left room for the table. Part records say where that
// room is, by the entry of the open seal. The final seal follows the open one.
#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/hdf5/chunk_tree.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/contents/seal.hpp"

namespace cairn {

StoredTensor whole_entry(std::string key, DType dtype, const Dims& shape, std::int64_t offset,
                         std::int64_t size, std::uint32_t crc) {
  Piece slice;
  slice.box = Box::whole(shape);
  slice.offset = offset;
  slice.stored_bytes = slice.raw_bytes = size;
  slice.crc32c = crc;
  return {std::move(key), dtype, shape, false, {std::move(slice)}, ""};
}

namespace {

// Takes the notes of where chunk indexes go out of the list.
std::map<std::string, std::int64_t> take_places(std::vector<StoredTensor>& tensors) {
  std::map<std::string, std::int64_t> places;
  std::erase_if(tensors, [&](const auto& one) {
    if (!one.key.starts_with(tree_key)) return false;
    places[one.key] = one.slices.at(0).offset;
    return true;
  });
  return places;
}

// Encodes the chunk indexes. Nodes that are neighbours become one patch with one entry. All chunks
// are there: the entries of a tensor were proved to cover it, in ascending order.
std::vector<commit::Patch> add_chunk_indexes(std::vector<StoredTensor>& tensors) {
  const auto places = take_places(tensors);
  std::map<std::int64_t, std::string> nodes;  // by offset
  const auto rest = places.find(std::string(tree_key));
  auto room = rest == places.end() ? 0 : rest->second;
  for (const auto& tensor : tensors) {
    const auto root = places.find(cat(tree_key, '/', tensor.key));
    if (root == places.end()) continue;
    std::vector<hdf5::ChunkPlace> chunks;
    for (const auto& piece : tensor.slices) {
      chunks.push_back({piece.offset, piece.stored_bytes, piece.codec != Codec::none});
    }
    const auto& chunk = tensor.slices.at(0).box.extent;
    for (auto& [offset, bytes] : hdf5::encode_chunk_tree(
             tensor.shape, chunk, static_cast<std::int64_t>(dtype_size(tensor.dtype)), chunks,
             root->second, room)) {
      nodes[offset] = std::move(bytes);
    }
    room += hdf5::tree_room(std::ssize(chunks), chunk.size());
  }
  std::vector<commit::Patch> patches;
  std::int64_t end = -1;
  for (auto& [offset, bytes] : nodes) {
    const auto next = offset + static_cast<std::int64_t>(bytes.size());
    if (offset != std::exchange(end, next)) patches.push_back({offset, ""});
    patches.back().bytes += bytes;
  }
  for (std::size_t i = 0; i < patches.size(); ++i) {
    const auto& [offset, bytes] = patches[i];
    const auto size = static_cast<std::int64_t>(bytes.size());
    tensors.push_back(
        whole_entry(chunk_index_key(i), DType::uint8, {size}, offset, size, crc32c(bytes)));
  }
  return patches;
}

}  // namespace

std::string chunk_index_key(std::size_t number) {
  char key[40];
  std::snprintf(key, sizeof key, "_cairn/chunks-%05zu", number);
  return key;
}

std::vector<commit::Patch> seal_hdf5(const ReadFile& read, std::vector<StoredTensor> tensors,
                                     const CheckpointMeta* meta) {
  const auto open = std::find_if(tensors.begin(), tensors.end(),
                                 [](const auto& one) { return one.key == open_seal_key; });
  if (open == tensors.end()) {
    throw Error(Code::data_loss, "the records of the save do not say where its table goes");
  }
  // Where the open seal ends, and the final one begins.
  const auto end = open->slices.at(0).offset + hdf5::seal_bytes;
  std::string bytes(static_cast<std::size_t>(hdf5::seal_bytes), '\0');
  read(end - hdf5::seal_bytes, std::as_writable_bytes(std::span(bytes)));
  auto seal = hdf5::decode_seal(bytes, end);
  auto patches = add_chunk_indexes(tensors);
  std::string table;
  const bool measured = meta && meta->statistics;
  // The metadata go to the end of the table's room, since only that grows at the merge. Statistics
  // or notes for which there is no room are left out.
  for (const bool with_run : {true, false}) {
    if (!measured || !table.empty()) break;
    const auto text =
        bundle::encode_statistics(*meta->statistics, with_run ? meta->run : RunNotes());
    auto stored = bundle::encode_strings({&text, 1});
    const auto size = static_cast<std::int64_t>(stored.bytes.size());
    const auto at = seal.table_room - size;
    if (at < 0) continue;
    tensors.push_back(whole_entry(std::string(bundle::statistics_key), DType::string, {},
                                  seal.table_offset + at, size, stored.crc32c));
    table = bundle::build_index(1, tensors);
    if (static_cast<std::int64_t>(table.size()) <= at) {
      patches.push_back({seal.table_offset + at, std::move(stored.bytes)});
    } else {
      tensors.pop_back();
      table.clear();
    }
  }
  if (table.empty()) table = bundle::build_index(1, tensors);
  if (static_cast<std::int64_t>(table.size()) > seal.table_room) {
    throw Error(Code::internal, cat("the checksum table has ", table.size(),
                                    " bytes, and room for ", seal.table_room));
  }
  seal.complete = true;
  seal.file_bytes = end + hdf5::seal_bytes;
  seal.table_bytes = static_cast<std::int64_t>(table.size());
  seal.table_crc32c = crc32c(table);
  // Zeros in the rest of the room: an interrupted attempt may have written statistics there.
  if (!measured) table.resize(static_cast<std::size_t>(seal.table_room));
  patches.push_back({seal.table_offset, std::move(table)});
  patches.push_back({end, hdf5::encode_seal(seal)});
  return patches;
}

}  // namespace cairn
