#pragma once
/// Files that ranks write together, watched: a rank inside of MPI-IO or libhdf5 waits for the
/// others there, and where one of them does not come nobody else can tell.
#include <memory>

#include "base/watch.hpp"
#include "cairn/shared_files.hpp"

namespace cairn {

/// Whose waits are watched, and where its calls come from.
class WatchedCaller {
 public:
  virtual ~WatchedCaller() = default;
  /// The rank, in a call of its own thread; null in any other thread, whose waits the rank's own
  /// would be taken for.
  virtual WatchedRank* caller() = 0;
};

/// The inner one, which outlives it as `caller` does; null for null.
std::unique_ptr<SharedFiles> watched(SharedFiles* inner, WatchedCaller& caller);
std::unique_ptr<DatasetFiles> watched(DatasetFiles* inner, WatchedCaller& caller);

}  // namespace cairn
