#pragma once
/// Exports checkpoints as directories of Zarr 3. Not collective. An existing directory is never
/// replaced: that would mean to remove a tree that may contain other people's files, and links.
/// Chunks are runs of row-major elements: another grid would need each tensor in another order in
/// memory.
#include <string>

#include "tools/convert_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// Returns whether the name is NAME.zarr.
bool is_zarr(const io::Path&);

/// Writes the tensors under a path (UNDER/KEY as KEY; empty: all) as arrays, and the paths above
/// them as groups. All is written to DESTINATION.unfinished, which is renamed when it is whole and
/// durable. Chunks have 16 MiB, or max_shard_bytes, and each has a checksum; names of dimensions,
/// units and attributes go along. Every byte is checked. Memory: the largest tensor. Returns the
/// destination.
/// Throws unsupported for strings, for dtypes that Zarr lacks, for gaps, for keys that are not
/// paths of arrays, and for overwrite; data_loss; already_exists.
std::string export_zarr(const OpenCheckpoint& source, const Address& destination,
                        const std::string& under = "", const ConvertOptions& = {},
                        const Progress& = {});

}  // namespace cairn
