#pragma once
/// Which checkpoint is the newest by a directory's state file.
#include <string>

#include "store/address.hpp"

namespace cairn {

/// Local. Returns an absolute path. "": the file names none, or names one that neither exists nor
/// is known to be lost.
std::string newest_by_state_file(const Address& directory);

}  // namespace cairn
