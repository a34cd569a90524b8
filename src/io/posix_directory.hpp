#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cairn/file_system.hpp"

namespace cairn::io {

/// As FileSystem::list and FileSystem::open_directory, of POSIX.
std::vector<std::string> list_directory(const Path&);
std::unique_ptr<OpenDirectory> open_posix_directory(const Path&);

}  // namespace cairn::io
