#pragma once
/// Which checkpoints the name of a file, a prefix or a directory means. By one process.
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// Names of all checkpoints in a directory: "X" of each "X.index", of whatever origin, and of each
/// "X.h5" of Cairn's, and of those that were lost; ascending, those that end in -STEP by name, then
/// step.
std::vector<std::string> list_prefixes(const Address& directory);

/// The checkpoint that PREFIX, PREFIX.index or a directory (its newest, by the state file) names.
/// Throws not_found.
Address resolve_checkpoint(const Address&);

/// Whether `given` names another checkpoint than this by now, as a directory does when the job that
/// saves there has gone on: what could not be read of this one may be gone.
bool names_another(const Address& given, const Address& prefix);

/// As resolve_checkpoint(), but all of a directory's checkpoints.
std::vector<Address> resolve_checkpoints(const Address&);

}  // namespace cairn
