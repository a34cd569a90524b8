#pragma once
#include <string>

#include "cli/command.hpp"

namespace cairn::cli {

/// Tries the file system of a directory with a second process on this host, and with one that the
/// command `through` starts on another, unless it is empty.
void selftest_file_system(Tool&, const std::string& directory, const std::string& through);

}  // namespace cairn::cli
