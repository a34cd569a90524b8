#pragma once
/// Who writes what in a save, and where.
#include <memory>
#include <vector>

#include "model/refreshed_state.hpp"
#include "session/save/capture.hpp"
#include "session/save/formats/hdf5_file.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

struct SavePlan {
  Sharding sharding;
  ReplicaPlan replicas;
  Divisions divided;
  LocalShards local;   ///< of a bundle
  LocalShards frozen;  ///< of a bundle, behind these; none where no files are shared (frozen.hpp)
  Gathered gathered;   ///< of an HDF5 file
  DensePlan dense;
  FileLayout layout;
  /// Of numeric tensors: what this rank holds less what it is to write; rank 0 less dense ones,
  /// too. The sum over ranks is what is held more than once.
  std::int64_t replica_bytes = 0;
  std::shared_ptr<const Descriptions> descriptions;  ///< what the states of all ranks say
  std::shared_ptr<const GapsByKey> gaps;             ///< of sparse tensors, of all ranks
  /// How a later save of a state of the same form goes by this plan.
  enum class Again {
    never,
    told,  ///< with what rank 0 does first, and tells
    alone  ///< an asynchronous one without a message
  };
  Again again = Again::never;
  CaptureForm capture;  ///< none before the first asynchronous save
  std::shared_ptr<CachedMerge> merged = std::make_shared<CachedMerge>();  ///< of its last save
};

/// Collective: describe, cover, shard, lay out.
SavePlan plan_save(const Job&, const RefreshedState&, const ReplicaRound&, const Sharding&);

}  // namespace cairn
