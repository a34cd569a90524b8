#pragma once
/// Converts checkpoints to safetensors files, and back. Collective over the ranks of the options.
#include <cstdint>
#include <string>
#include <vector>

#include "tools/convert_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// Returns whether this is NAME.safetensors, or NAME.safetensors.index.json, which says which files
/// beside it have the tensors.
bool is_safetensors(const io::Path&);

/// Saves the contents of the file, or of the files of an index, as a checkpoint, with one commit as
/// in convert_checkpoint. The file's metadata become attributes of the checkpoint. Headers are
/// checked before any data are read, but there are no checksums to check the data. The ranks share
/// the bytes evenly, and each writes files of its own. Memory: about 256 MiB. With `under`, keys
/// become UNDER/KEY. Returns the prefix.
/// Throws data_loss, unsupported for dtypes that no checkpoint has, and the errors of
/// convert_checkpoint.
std::string import_safetensors(const Address& source, const Address& destination,
                               const std::string& under = "", const ConvertOptions& = {},
                               const Progress& = {});

/// Writes the tensors under a path (UNDER/KEY as KEY; empty: all) as `destination`, durably, and
/// gives it its name when it is whole. With max_shard_bytes no file holds more than that, except
/// one with a single larger tensor: NAME-00001-of-00002.safetensors, …, and last
/// NAME.safetensors.index.json. The ranks share the bytes evenly, whatever files they are in. Every
/// byte is checked. Memory: 20 MiB, or the largest tensor whose stored slices are not contiguous in
/// it. Returns the file to open.
/// Throws unsupported for strings, dtypes that safetensors lacks, and gaps; data_loss;
/// already_exists.
std::string export_safetensors(const OpenCheckpoint& source, const Address& destination,
                               const std::string& under = "", const ConvertOptions& = {},
                               const Progress& = {});

}  // namespace cairn
