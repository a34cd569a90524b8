#pragma once
/// Which rank writes what in a save, and where.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/refreshed_state.hpp"
#include "session/save/capture.hpp"
#include "session/save/formats/hdf5_file.hpp"
#include "session/save/save_steps.hpp"
#include "session/save/unchanged_tensors.hpp"

namespace cairn {

struct SavePlan {
  Sharding sharding;
  ReplicaPlan replicas;
  Divisions divided;
  /// Tells which tensors of this rank are frozen, besides those of the options, while the save is
  /// laid out.
  const UnchangedTensors* unchanged = nullptr;
  /// Of a bundle: the tensors that the options freeze, also if they are thawed, and those that
  /// cannot be frozen.
  std::set<std::string> marked, never_frozen;
  LocalShards local;   ///< of a bundle
  LocalShards frozen;  ///< of a bundle; their files follow those of `local`; empty if no files are
                       ///< shared (frozen.hpp)
  Gathered gathered;   ///< of an HDF5 file
  DensePlan dense;
  FileLayout layout;
  /// For numeric tensors: the bytes that this rank holds minus those that it writes; on rank 0 also
  /// minus those of dense tensors. The sum over all ranks is the number of bytes that are held more
  /// than once.
  std::int64_t replica_bytes = 0;
  std::shared_ptr<const Descriptions> descriptions;  ///< joined from the states of all ranks
  std::shared_ptr<const GapsByKey> gaps;             ///< of sparse tensors; the same on all ranks
  /// How a later save of a state of the same form can use this plan.
  enum class Again {
    never,
    told,  ///< rank 0 begins the save, and tells the others
    alone  ///< an asynchronous save needs no message
  };
  Again again = Again::never;
  CaptureForm capture;  ///< empty before the first asynchronous save
  std::shared_ptr<CachedMerge> merged = std::make_shared<CachedMerge>();  ///< of its last save

  /// The size of the copy that an asynchronous save makes.
  std::int64_t copy_bytes(const RefreshedState&, Until) const;
};

/// Collective. Describes, covers, shards and lays out.
SavePlan plan_save(const Job&, const RefreshedState&, const ReplicaRound&, const Sharding&,
                   std::shared_ptr<const GapsByKey> gaps, const UnchangedTensors& unchanged);

}  // namespace cairn
