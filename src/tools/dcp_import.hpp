#pragma once
/// Imports checkpoints of torch.distributed.checkpoint (DCP). Collective over the ranks of the
/// options.
///
/// An object that is not a tensor keeps the bytes that torch.save wrote. If plain values became
/// tensors, dcp.load would not find its objects, and one unknown object would make it refuse the
/// whole state.
#include <string>

#include "tools/convert_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// Returns whether this is a directory with .metadata and files *.distcp.
bool is_dcp(const Address&);

/// Saves the contents as a checkpoint, with one commit as in convert_checkpoint. No code in the
/// pickles is run. The result is what dcp.save makes through cairn.torch.StorageWriter: pieces
/// become slices; other objects become tensors of uint8 with the bytes of torch.save, and a plain
/// value becomes their attribute "value" too. With `under`, keys become UNDER/KEY, and dcp.load no
/// longer finds them. The checksums that torch made are compared. The ranks share the pieces.
/// Memory: about 256 MiB, and a hundred bytes for each byte of .metadata. Returns the prefix.
/// Throws data_loss; unsupported for pickles of anything else; coverage if the pieces leave out a
/// part of their tensor; and the errors of convert_checkpoint.
std::string import_dcp(const Address& source, const Address& destination,
                       const std::string& under = "", const ConvertOptions& = {},
                       const Progress& = {});

}  // namespace cairn
