#pragma once
/// Which Cairn this is, and what it was built with.
#include <string>
#include <utility>
#include <vector>

#include "cairn/version_macros.h"

namespace cairn {

/// "0.1.0": of the library that runs, which need not be that of these headers. Any thread.
const char* version();

/// What the build found, as names and values, for reports: {"hdf5", "1.10.8"}; what is not in it
/// has the value "no". "commit" is the whole hash, with a "+" if files were changed, or "unknown":
/// of a developer's build, or of sources without git. Any thread.
std::vector<std::pair<std::string, std::string>> build_options();

}  // namespace cairn
