#pragma once
/// The steps of the protocol that differ for a direct save. To be called through protocol.hpp.
#include "store/commit/protocol.hpp"

namespace cairn::commit {

/// Before step 1: what earlier direct saves of this step left. Their old-index must not come back
/// over what is saved now; where it is the step's only index, it has to be put back before.
void remove_stale(io::FileSystem&, const Transaction&);

/// Steps 4–6.
void publish_direct(io::FileSystem&, const Transaction&, const io::Content& index,
                    const std::vector<OwnFile>& own_files);

/// The directory fsync after the commit point: durability_unknown if it fails.
void sync_commit(io::FileSystem&, const Transaction&);

}  // namespace cairn::commit
