#pragma once
/// Checkpoints as safetensors files, and the reverse. Collective over the ranks of the options.
#include <cstdint>
#include <string>
#include <vector>

#include "tools/convert_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// NAME.safetensors, or NAME.safetensors.index.json, which says in which files beside it the
/// tensors are.
bool is_safetensors(const io::Path&);

/// Saves what the file, or the files of an index, hold as a checkpoint: one commit, as
/// convert_checkpoint does it. The file's metadata become attributes of the checkpoint. Headers are
/// checked before anything is read; there are no checksums that could prove the bytes. Ranks share
/// the bytes evenly, and each writes files of its own. Memory: 256 MiB or so. `under`: keys become
/// UNDER/KEY. Returns the prefix.
/// Throws data_loss, unsupported for dtypes that no checkpoint has, and as convert_checkpoint.
std::string import_safetensors(const Address& source, const Address& destination,
                               const std::string& under = "", const ConvertOptions& = {},
                               const Progress& = {});

/// Writes the tensors under a path (UNDER/KEY as KEY; empty: all) as `destination`, durably, and
/// renames it when it is whole. With max_shard_bytes files hold no more than that, or one larger
/// tensor: NAME-00001-of-00002.safetensors, …, and last NAME.safetensors.index.json. Ranks share
/// the bytes evenly, in whatever files they are. Every byte is checked. Memory: 20 MiB, or the
/// largest tensor whose stored slices do not lie in a row in it. Returns the file to open.
/// Throws unsupported for texts, dtypes that safetensors lacks, and gaps; data_loss;
/// already_exists.
std::string export_safetensors(const OpenCheckpoint& source, const Address& destination,
                               const std::string& under = "", const ConvertOptions& = {},
                               const Progress& = {});

}  // namespace cairn
