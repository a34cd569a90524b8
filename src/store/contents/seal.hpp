#pragma once
/// Makes a checkpoint of data files that are written: the index of a bundle, or the table and seal
/// of an HDF5 file. A save's merge ends in it, and so does the recovery of a save that died.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "layout/bundle/cached_index.hpp"
#include "layout/bundle/index.hpp"
#include "store/commit/protocol.hpp"

namespace cairn {

/// Joins entries of the same tensor and proves from them alone that they cover it; runs of a dense
/// one (`sliced` is false, and there are several) become one entry, and their checksums one
/// checksum. The merge and the recovery of a save both use it. Ascending by key, slices ascending
/// by box. Of a sliced tensor that has `gaps`, slices and gaps cover it.
std::vector<StoredTensor> join_entries(std::vector<StoredTensor> entries,
                                       const GapsByKey& gaps = {});

/// What all ranks wrote, joined: as tensors, or as entries of an index, which need no further look.
struct JoinedEntries {
  std::vector<StoredTensor> tensors;
  std::vector<bundle::IndexEntry> encoded;  ///< of other keys
  /// With checksums of this save: what the last one had, in the place of `encoded`.
  std::shared_ptr<bundle::CachedIndex> kept = nullptr;
};

/// The index of a checkpoint, and the data files that rank 0 writes itself: metadata with a spare
/// copy of the index behind it, and as many empty files as make up num_files. The metadata have a
/// file of their own, so part records need nothing from rank 0, and a save that is rolled forward
/// has the bytes that the merge would have written.
struct Sealed {
  io::Content index;
  std::vector<commit::OwnFile> own_files;
};
Sealed seal_index(JoinedEntries, const CheckpointMeta&, int data_files, int num_files);

/// Where the seal of an unfinished HDF5 file is: a key of its table. It stays, and the last one
/// comes behind it: so a crash while that is written leaves the place of the table known.
inline constexpr std::string_view open_seal_key = "_cairn/seal";

/// A tensor that is stored whole, in file 0.
StoredTensor whole_entry(std::string key, DType, const Dims& shape, std::int64_t offset,
                         std::int64_t size, std::uint32_t crc32c);

/// Rank 0. What completes a file that is in the making: the table of these tensors, of the metadata
/// the statistics and the notes of the run, as far as there is room for them, and the seal. Without
/// metadata nothing stays of an attempt that was broken off.
std::vector<commit::Patch> seal_hdf5(io::FileSystem&, const commit::Transaction&,
                                     std::vector<StoredTensor>, const CheckpointMeta* = nullptr);

}  // namespace cairn
