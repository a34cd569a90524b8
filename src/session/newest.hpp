#pragma once
/// What a directory's state file says is its newest checkpoint.
#include <string>

#include "store/address.hpp"

namespace cairn {

/// Local. An absolute path; "": none is named, or what is named is neither there nor known to have
/// been lost.
std::string newest_by_state_file(const Address& directory);

}  // namespace cairn
