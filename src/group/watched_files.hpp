#pragma once
/// Watches files that ranks write together. A rank inside MPI-IO or libhdf5 waits for the others
/// there; if one of them does not come, only the watch can tell.
#include <memory>

#include "base/watch.hpp"
#include "cairn/shared_files.hpp"

namespace cairn {

/// Gives the rank whose waits are watched.
class WatchedCaller {
 public:
  virtual ~WatchedCaller() = default;
  /// The rank, in a call on its own thread. Null on any other thread: its waits would be taken for
  /// those of the rank.
  virtual WatchedRank* caller() = 0;
};

/// Wraps the files, which must outlive the result, as must `caller`. Null for null.
std::unique_ptr<SharedFiles> watched(SharedFiles* inner, WatchedCaller& caller);
std::unique_ptr<DatasetFiles> watched(DatasetFiles* inner, WatchedCaller& caller);

}  // namespace cairn
