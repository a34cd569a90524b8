#pragma once
/// Repairs a damaged checkpoint from copies of the same bytes elsewhere.
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

/// The owner of the directory calls it. An index is restored from its spare copy, a spare copy from
/// the index, and a data file from a file of another checkpoint here that holds the same slices
/// with the same checksums; lost metadata are written anew (new_metadata.hpp). The metadata decide
/// which index belongs to the checkpoint (own_index.hpp); while none fit, nothing is taken from
/// other checkpoints. A file that is sound for any index here is not replaced. Each new file is
/// written beside the old one, synced and read again before it gets its name. The replaced files
/// are kept until the whole checkpoint is verified, and are put back if it is not whole; but if no
/// index could be read, a readable one is put there in any case. Wherever the old file is right by
/// the index that counts, the new one has the same bytes: so a repair that dies half-way leaves
/// nothing worse than before, and needs no log (replace_files.hpp).
///
/// A missing index is put back only if something shows that the checkpoint was live
/// (store/contents/lost.hpp), and not if the files that are there may be of several saves: a
/// checkpoint that was withdrawn, replaced or retired never comes back. Throws the errors of
/// reading and writing.
Repair repair_checkpoint(const Address& prefix, const commit::OwnedName&);

/// Returns whether Cairn saved any of it. Only then may a repair find something.
bool may_be_repaired(const Address& prefix);

}  // namespace cairn
