#pragma once
/// The steps in which ranks come to know what a checkpoint holds.
#include <cstdint>
#include <optional>

#include "session/job/job.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {

/// Collective. Each io rank looks at its share of the data files, since a look takes a metadata
/// server as long as an open. Rank 0 looks again at what was not found whole, and only what it sees
/// is damage: other nodes may know a file from an earlier time (NFS keeps attributes for seconds).
/// Sets `told` on all ranks, if any has set it.
FoundSizes find_sizes(const Job&, const io::Path& prefix, Format, int num_files, bool& told);

/// Collective. Rank 0 tells all ranks the whole index. It may have read it already, and data files
/// may have been looked at. Throws not_found or data_loss.
CheckpointContents tell_whole(const Job&, const io::Path& prefix, std::optional<IndexFile>,
                              const FoundSizes&);
/// The same in one format, where there are several.
CheckpointContents tell_format(const Job&, const io::Path& prefix, Format);

}  // namespace cairn
