#pragma once
/// Completes a checkpoint whose data files are written: makes the index of a bundle, or the table
/// and seal of an HDF5 file. A save's merge uses it, and the recovery of a save whose job died.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "layout/bundle/cached_index.hpp"
#include "layout/bundle/index.hpp"
#include "store/commit/protocol.hpp"

namespace cairn {

/// Joins entries of the same tensor and proves from them alone that they cover it. Several runs of
/// a dense tensor (`sliced` is false) become one entry, and their checksums one checksum. The merge
/// and the recovery of a save both use it. Ascending by key, slices ascending by box. For a sliced
/// tensor that has `gaps`, slices and gaps together cover it.
std::vector<StoredTensor> join_entries(std::vector<StoredTensor> entries,
                                       const GapsByKey& gaps = {});

/// The same for one tensor, whose entries come one by one: add_entry() adds the slices of another
/// entry of its key to the first one, and complete_entry() is called when all have come.
void add_entry(StoredTensor& tensor, StoredTensor entry);
void complete_entry(StoredTensor& tensor, const GapsByKey& gaps);

/// What all ranks wrote, joined: as tensors, or as encoded entries of an index, which are taken as
/// they are.
struct JoinedEntries {
  std::vector<StoredTensor> tensors;
  std::vector<Packed<bundle::IndexEntry>> encoded;  ///< of other keys; each list ascends
  /// The last save's index with this save's checksums, instead of `encoded`.
  std::shared_ptr<bundle::CachedIndex> kept = nullptr;
};

/// The index of a checkpoint, and the data files that rank 0 writes itself: the metadata with a
/// spare copy of the index behind them, and as many empty files as make up num_files. The metadata
/// have a file of their own. So part records need nothing from rank 0, and a save that is rolled
/// forward has the bytes that the merge would have written.
struct Sealed {
  io::Content index;
  std::vector<commit::OwnFile> own_files;
};
Sealed seal_index(JoinedEntries, const CheckpointMeta&, int data_files, int num_files);

/// The key, in the table, of the seal of an unfinished HDF5 file. That seal stays, and the final
/// one is written behind it: so after a crash in that write the place of the table is still known.
inline constexpr std::string_view open_seal_key = "_cairn/seal";

/// Keys in the records of an unfinished HDF5 file, of entries without bytes, whose offsets say
/// where chunk indexes go: KEY/TENSOR the root of a tensor's index, KEY all other nodes. The table
/// has the bytes that the commit has written there, under numbered keys.
inline constexpr std::string_view tree_key = "_cairn/tree";
std::string chunk_index_key(std::size_t number);

/// The entry of a tensor that is stored whole, in file 0.
StoredTensor whole_entry(std::string key, DType, const Dims& shape, std::int64_t offset,
                         std::int64_t size, std::uint32_t crc32c);

/// Rank 0. The bytes that complete an HDF5 file: the table of these tensors, the metadata with
/// statistics and notes of the run, as far as there is room for them, and the seal. Without
/// metadata, it removes what an interrupted attempt has written. `read`: reads the file.
using ReadFile = std::function<void(std::int64_t offset, std::span<std::byte>)>;
std::vector<commit::Patch> seal_hdf5(const ReadFile& read, std::vector<StoredTensor>,
                                     const CheckpointMeta* = nullptr);

}  // namespace cairn
