#pragma once
/// What registered savers write beside the state, and how it becomes part of the checkpoint.
#include <vector>

#include "cairn/contents.hpp"
#include "model/refreshed_state.hpp"
#include "session/job/job.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// Collective, in the temp directory of a save. Calls the savers; takes the data files of their
/// bundles under the next numbers of the save, durable; raises the layout's and the transaction's
/// numbers of files, and names the savers and their keys in the metadata. Returns the entries that
/// this rank's bundles hold. Throws invalid_argument, naming the saver, for what is no readable
/// bundle under the prefix, for keys that come twice or that the state has, and for slices that do
/// not make up their tensor.
std::vector<StoredTensor> run_savers(const Job&, const RefreshedState&, Draft&, FileLayout&,
                                     CheckpointMeta&);

}  // namespace cairn
