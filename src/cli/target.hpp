#pragma once
/// What the words of the command line name: directories, and checkpoints in them.
#include <string>

#include "cairn/contents.hpp"
#include "store/contents/find_checkpoints.hpp"

namespace cairn::cli {

/// The tensor of this key, path or variable's name, or Cairn's own of this key. Throws not_found.
const StoredTensor& require_tensor(const CheckpointContents&, const std::string& key);

/// The prefix of a checkpoint that is to be made. Throws not_found where its directory is missing:
/// a mistyped one would be made without a word.
Address require_parent(const Address&);

/// Throws not_found, or invalid_argument for a file.
Address require_directory(const Address&);

}  // namespace cairn::cli
