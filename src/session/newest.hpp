#pragma once
/// What a directory's state file says is its newest checkpoint.
#include <string>

#include "io/file_system.hpp"

namespace cairn {

/// Local. An absolute path; "": none is named, or what is named is neither there nor known to have
/// been lost.
std::string newest_by_state_file(io::FileSystem&, const io::Path& directory);

}  // namespace cairn
