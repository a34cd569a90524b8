#pragma once
/// Checkpoints as directories of Zarr 3. By one process. A directory that is there is never
/// replaced: that would mean to remove a tree that may hold anybody's files, and links. Chunks are
/// runs of row-major elements: another grid would need each tensor in another order in memory.
#include <string>

#include "tools/convert_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// NAME.zarr.
bool is_zarr(const io::Path&);

/// Writes the tensors under a path (UNDER/KEY as KEY; empty: all) as arrays, and the paths above
/// them as groups: in DESTINATION.unfinished, which is renamed when it is whole and durable. Chunks
/// of 16 MiB, or of max_shard_bytes, each with a checksum; dimensions' names, units and attributes
/// go along. Every byte is checked. Memory: the largest tensor. Returns the destination.
/// Throws unsupported for texts, dtypes that Zarr lacks, gaps, keys that are no paths of arrays,
/// and for overwrite; data_loss; already_exists.
std::string export_zarr(const OpenCheckpoint& source, const Address& destination,
                        const std::string& under = "", const ConvertOptions& = {},
                        const Progress& = {});

}  // namespace cairn
