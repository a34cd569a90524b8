#pragma once
/// A bundle of data files that are there already.
#include <functional>
#include <optional>
#include <vector>

#include "cairn/contents.hpp"
#include "store/commit/ownership.hpp"
#include "store/directory/pins.hpp"
#include "store/location.hpp"

namespace cairn {

/// What one process makes a checkpoint of.
struct NewBundle {
  std::vector<io::Path> data;         ///< get one more name, or are copied
  std::vector<StoredTensor> tensors;  ///< what is where in them
  CheckpointMeta meta;                ///< but for the name of the save
  unsigned access = 0666;             ///< nothing of it is more open (io::Status::access)
};

/// One process, the owner of the name, which is that of one checkpoint. What stood there is
/// replaced. `sealed` is called when all but the commit is done; what it throws ends it, and the
/// lock that it gives is held until the commit. Throws io, no_space, busy; durability_unknown where
/// the checkpoint may be there.
void commit_bundle(const Location&, const commit::OwnedName&, NewBundle,
                   const std::function<std::optional<PinLock>()>& sealed);

}  // namespace cairn
