#pragma once
/// Verifying beside a job that saves: it may let a checkpoint go, or replace it, at any moment.
#include <optional>

#include "tools/verify.hpp"

namespace cairn {

struct FoundBeside {
  Verification checked;
  bool set_aside = false;  ///< its removal did not finish: the next job, or cairn gc, gives it back
};

/// The checkpoints that `given`, a prefix or a directory, names, as its next owner would find them.
/// Throws not_found.
std::vector<Address> checkpoints_beside(const Address& given);

/// As verify_checkpoint() of one of these. What was replaced while it was read is read again.
/// Nothing: the directory does not list it any more, since a job has let it go.
std::optional<FoundBeside> verify_beside(const Address& given, const Address& prefix,
                                         const Progress& = {});

}  // namespace cairn
