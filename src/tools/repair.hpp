#pragma once
/// Puts back what is damaged or missing of a checkpoint, where the same bytes are elsewhere.
#include <string>
#include <vector>

#include "store/commit/ownership.hpp"
#include "tools/verify.hpp"

namespace cairn {

struct Repair {
  std::vector<std::string> done;  ///< in words
  std::vector<std::string> left;  ///< what could not be done, and why
  Verification after;
};

/// By the owner of the directory. An index comes back from its spare copy, a spare copy from the
/// index, a data file from a file of another checkpoint here that holds the same slices with the
/// same checksums; lost metadata are written anew (new_metadata.hpp). Which index is the
/// checkpoint's own is decided by the metadata (own_index.hpp); while none fit, nothing is taken
/// from others. No file is replaced that is sound for any index here. Everything is written beside,
/// synced and read again before it gets its name, what it replaces is kept until the whole
/// checkpoint is verified, and comes back if that is not whole; but where no index could be read
/// one is put there all the same. Each new file has the same bytes wherever the old one is right by
/// the index that counts: so a repair that dies half way leaves nothing worse than before, and
/// needs no log (replace_files.hpp).
///
/// An index that is missing is put back only where something says that the checkpoint was live
/// (store/contents/lost.hpp), and none while what is there may be of several saves: nothing that
/// was withdrawn, replaced or retired comes back. Throws what reading and writing throw.
Repair repair_checkpoint(const Address& prefix, const commit::OwnedName&);

/// Whether Cairn saved any of it, so that a repair may find something.
bool may_be_repaired(const Address& prefix);

}  // namespace cairn
