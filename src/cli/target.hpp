#pragma once
/// What the words of the command line name: directories, and checkpoints in them.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "io/file_system.hpp"

namespace cairn::cli {

/// Names of all checkpoints in a directory: "X" of each "X.index", of whatever origin, and of each
/// "X.h5" of Cairn's, and of those that were lost; ascending, those that end in -STEP by name, then
/// step.
std::vector<std::string> list_prefixes(io::FileSystem&, const io::Path& directory);

/// The checkpoint that PREFIX, PREFIX.index or a directory (its newest, by the state file) names.
/// Throws not_found.
io::Path resolve_checkpoint(io::FileSystem&, const std::string& text);

/// The same, but all of a directory's checkpoints.
std::vector<io::Path> resolve_checkpoints(io::FileSystem&, const std::string& text);

/// The tensor of this key, path or variable's name, or Cairn's own of this key. Throws not_found.
const StoredTensor& require_tensor(const CheckpointContents&, const std::string& key);

/// The prefix of a checkpoint that is to be made. Throws not_found where its directory is missing:
/// a mistyped one would be made without a word.
io::Path require_parent(io::FileSystem&, const std::string& text);

/// Throws not_found, or invalid_argument for a file.
io::Path require_directory(io::FileSystem&, const std::string& text);

}  // namespace cairn::cli
