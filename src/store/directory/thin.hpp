#pragma once
/// Letting some of a checkpoint's tensors go: what is left is a whole checkpoint of the others.
///
/// The new metadata and the new index come behind the old metadata in their data file, whose bytes
/// stay where the old index looks for them; then the new index takes the place of the old one,
/// which is the commit. Only then data goes: files that nothing refers to any more are removed, and
/// of others what nothing refers to is given back to the file system. A file in .cairn tells what
/// is being done, so that the next owner ends it. A crash at any instant leaves the checkpoint as
/// it was, or without these tensors.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/commit/ownership.hpp"
#include "store/location.hpp"

namespace cairn {

/// What is to go.
struct ThinRequest {
  std::vector<std::string> keys;  ///< patterns of stored keys, or of those that programs write
  std::int64_t after = -1;        ///< see Thinned
};

/// What goes of one checkpoint.
struct ThinPlan {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;         ///< as they are stored
  std::int64_t freed_bytes = 0;   ///< of these; the rest is in files that have other names, too
  std::int64_t copied_bytes = 0;  ///< of files with other names, which are written anew without it
  std::int64_t room_bytes = 0;    ///< that this takes meanwhile
};

/// Looks only. Nothing goes where no key fits. Throws data_loss for a checkpoint that is damaged,
/// unsupported for one of another program, of another format, and where nothing would be left.
ThinPlan plan_thinning(const Location&, std::int64_t step, const ThinRequest&);

/// The owner. Durable on return. Throws as that, no_space before anything has changed, and what
/// writing throws. Registered savers' tensors, the object graph and TensorFlow's save_counter stay.
ThinPlan thin(const Location&, std::int64_t step, const ThinRequest&, const commit::Ownership&);

/// The owner, as the directory is opened: ends what one that died has begun. Errors are logged.
void finish_thinning(const Location&, const commit::Ownership&);
/// What it would do, in words; empty: nothing.
std::string unfinished_thinning(const Location&);

}  // namespace cairn
