#pragma once
/// Checkpoints of torch.distributed.checkpoint (DCP) as checkpoints of Cairn's. Collective over the
/// ranks of the options.
///
/// What is no tensor stays the bytes of torch.save that it was. If plain values became tensors,
/// dcp.load would not find its objects, and one unknown object would refuse the whole state.
#include <string>

#include "tools/convert_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// A directory with .metadata and files *.distcp.
bool is_dcp(const Address&);

/// Saves what it holds as a checkpoint: one commit, as convert_checkpoint does it. Nothing of its
/// pickles is run. It becomes what dcp.save makes through cairn.torch.StorageWriter: pieces are
/// slices; what is no tensor stays bytes of torch.save, a tensor of uint8, and a plain value is its
/// attribute "value" too. `under`: keys become UNDER/KEY, and dcp.load no longer knows them. The
/// checksums that torch made are compared. Ranks share the pieces. Memory: 256 MiB or so, and a
/// hundred bytes for each of .metadata. Returns the prefix. Throws data_loss, unsupported for
/// pickles of anything else, coverage where pieces leave a part of their tensor out, and as
/// convert_checkpoint.
std::string import_dcp(const Address& source, const Address& destination,
                       const std::string& under = "", const ConvertOptions& = {},
                       const Progress& = {});

}  // namespace cairn
