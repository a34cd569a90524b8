#pragma once
/// Puts back what is damaged or missing of a checkpoint, where the same bytes are elsewhere.
#include <string>
#include <vector>

#include "commit/ownership.hpp"
#include "tools/verify.hpp"

namespace cairn {

struct Repair {
  std::vector<std::string> done;  ///< in words
  std::vector<std::string> left;  ///< what could not be done, and why
  Verification after;
};

/// By the owner of the directory. An index comes back from its spare copy, a spare copy from the
/// index, a data file from a file of another checkpoint here that holds the same slices with the
/// same checksums. Everything is written beside, synced and read again before it gets its name, so
/// that a crash leaves what was there. An index that is missing is put back only where something
/// says that the checkpoint was live (directory/lost.hpp), and none while what is there may be of
/// several saves: nothing that was withdrawn, replaced or retired comes back. Throws what reading
/// and writing throw.
Repair repair_checkpoint(io::FileSystem&, const io::Path& prefix, const commit::OwnedName&);

/// Whether Cairn saved any of it, so that a repair may find something.
bool may_be_repaired(io::FileSystem&, const io::Path& prefix);

}  // namespace cairn
