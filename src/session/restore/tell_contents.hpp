#pragma once
/// The steps in which ranks learn what a checkpoint holds.
#include <cstdint>
#include <optional>

#include "session/job/job.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {

/// Collective. Each io rank asks for the sizes of its share of the data files, since that takes a
/// metadata server as long as an open. Rank 0 checks again those that were not found whole, and
/// only its answer counts as damage: other nodes may see an older state of a file (NFS keeps
/// attributes for seconds). If `told` is set on any rank, this sets it on all.
FoundSizes find_sizes(const Job&, const io::Path& prefix, Format, int num_files, bool& told);

/// Collective. Rank 0 tells all ranks the whole index. It passes the index if it has read it
/// already, and the sizes of the data files if they are known. Throws not_found or data_loss.
CheckpointContents tell_whole(const Job&, const io::Path& prefix, std::optional<IndexFile>,
                              const FoundSizes&);
/// The same for one format, if the checkpoint exists in several.
CheckpointContents tell_format(const Job&, const io::Path& prefix, Format);

}  // namespace cairn
