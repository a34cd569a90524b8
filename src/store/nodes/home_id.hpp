#pragma once
/// Which directory checkpoints on the nodes belong to.
#include <string>

#include "store/address.hpp"

namespace cairn::tier {

/// The owner's, or a reader's. DIRECTORY/.cairn/home-id holds it, and which directory it was
/// written for: a copy of a directory is another one, and gets an id of its own. `may_write`: of a
/// directory without one; else "" then.
std::string home_id(const Address& directory, bool may_write);

}  // namespace cairn::tier
