#pragma once
/// Which Cairn this is, and what it was built with.
#include <string>
#include <utility>
#include <vector>

#include "cairn/version_macros.h"

namespace cairn {

/// The version of the library that runs, "0.1.0"; these headers may be of another. Any thread.
const char* version();

/// What the build found, as names and values, for reports: {"hdf5", "1.10.8"}; a part that is not
/// built in has the value "no". "commit" is the whole hash, with a "+" if files were changed, or
/// "unknown" in a developer's build and in sources without git. Any thread.
std::vector<std::pair<std::string, std::string>> build_options();

}  // namespace cairn
