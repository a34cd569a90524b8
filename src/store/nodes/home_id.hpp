#pragma once
/// Identifies the directory to which checkpoints on the nodes belong.
#include <string>

#include "store/address.hpp"

namespace cairn::tier {

/// The id of a directory, for its owner or a reader. It is stored in DIRECTORY/.cairn/home-id,
/// together with the directory for which it was written: a copy of a directory gets an id of its
/// own. If there is no id, one is written if `may_write`; otherwise "" is returned.
std::string home_id(const Address& directory, bool may_write);

}  // namespace cairn::tier
