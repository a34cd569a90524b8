#pragma once
/// Makes what registered savers write beside the state a part of the checkpoint.
#include <vector>

#include "cairn/contents.hpp"
#include "model/refreshed_state.hpp"
#include "session/job/job.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// Collective; works in the temp directory of a save. Calls the savers, and takes the data files of
/// their bundles as the next numbered files of the save, durable. Raises the numbers of files of
/// the layout and the draft, and names the savers and their keys in the metadata. Returns the
/// entries of this rank's bundles. Throws invalid_argument, naming the saver, if it returned a
/// prefix without a readable bundle, if a key occurs twice or is in the state, and if slices do not
/// cover their tensor.
std::vector<StoredTensor> run_savers(const Job&, const RefreshedState&, Draft&, FileLayout&,
                                     CheckpointMeta&);

}  // namespace cairn
