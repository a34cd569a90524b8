#pragma once
/// The steps of the protocol that differ for a direct save. Call them through protocol.hpp.
///
/// Records are in a directory of the save, and not under long names beside the data: a directory
/// can be made exclusively, and recovery, `cairn gc` and clean-up use the same code as for other
/// saves. Recovery can complete a save whose index is torn. The old index is kept there all the
/// same, for three cases: a save that fails while the job lives on (a full disk) must leave the old
/// checkpoint whole; a merge has no records; durable bytes may still prove damaged.
#include "store/commit/protocol.hpp"

namespace cairn::commit {

/// Called before step 1. Removes what earlier direct saves of this step left, since their old-index
/// must not come back over what is saved now. If such an old-index is the step's only index, the
/// caller must have put it back before.
void remove_stale(io::FileSystem&, const Transaction&);

/// Steps 4–6.
void publish_direct(io::FileSystem&, const Transaction&, const io::Content& index,
                    const std::vector<OwnFile>& own_files);

/// The directory fsync after the commit point. Throws durability_unknown if it fails.
void sync_commit(io::FileSystem&, const Transaction&);

}  // namespace cairn::commit
