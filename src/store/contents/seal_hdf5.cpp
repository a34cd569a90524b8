// Completes an HDF5 file, in which the save left room for the table. Part records say where that
// room is, by the entry of the open seal. The final seal follows the open one.
#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
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

std::vector<commit::Patch> seal_hdf5(io::FileSystem& files, const commit::Transaction& save,
                                     std::vector<StoredTensor> tensors,
                                     const CheckpointMeta* meta) {
  const auto open = std::find_if(tensors.begin(), tensors.end(),
                                 [](const auto& one) { return one.key == open_seal_key; });
  if (open == tensors.end()) {
    throw Error(Code::data_loss, "the records of the save do not say where its table goes");
  }
  // Where the open seal ends, and the final one begins.
  const auto end = open->slices.at(0).offset + hdf5::seal_bytes;
  std::string bytes(static_cast<std::size_t>(hdf5::seal_bytes), '\0');
  files.open_read(save.part(0))
      ->read_at(end - hdf5::seal_bytes, std::as_writable_bytes(std::span(bytes)));
  auto seal = hdf5::decode_seal(bytes, end);
  std::vector<commit::Patch> patches;
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
