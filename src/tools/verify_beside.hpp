#pragma once
/// Verifies checkpoints while a job saves: it may remove or replace one at any moment.
#include <optional>

#include "tools/verify.hpp"

namespace cairn {

struct FoundBeside {
  Verification checked;
  bool set_aside = false;  ///< its removal did not finish: the next job, or cairn gc, restores it
};

/// The checkpoints that `given`, a prefix or a directory, names, as the next owner of the directory
/// would find them. Throws not_found.
std::vector<Address> checkpoints_beside(const Address& given);

/// The same as verify_checkpoint(), for one of these. A checkpoint that was replaced while it was
/// read is read again. Returns nothing if a job has removed it and the directory does not list it
/// any more.
std::optional<FoundBeside> verify_beside(const Address& given, const Address& prefix,
                                         const Progress& = {});

}  // namespace cairn
