#pragma once
/// The steps of the protocol that differ for a direct save. To be called through protocol.hpp.
///
/// Records lie in a directory of the save and not under long names beside the data: a directory is
/// made exclusively, and recovery, `cairn gc` and tidying use the code for other saves. Recovery
/// completes a save over a torn index, but the old index is kept there all the same, since three
/// cases need it: a save that fails while the job lives on (a full disk) must leave the old
/// checkpoint whole; a merge has no records; durable bytes may still prove damaged.
#include "store/commit/protocol.hpp"

namespace cairn::commit {

/// Before step 1: removes what earlier direct saves of this step left. Their old-index must not
/// come back over what is saved now. Where it is the step's only index, the caller puts it back
/// before.
void remove_stale(io::FileSystem&, const Transaction&);

/// Steps 4–6.
void publish_direct(io::FileSystem&, const Transaction&, const io::Content& index,
                    const std::vector<OwnFile>& own_files);

/// The directory fsync after the commit point: durability_unknown if it fails.
void sync_commit(io::FileSystem&, const Transaction&);

}  // namespace cairn::commit
