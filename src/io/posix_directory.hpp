#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cairn/file_system.hpp"

namespace cairn::io {

/// FileSystem::list and FileSystem::open_directory of the POSIX file system.
std::vector<std::string> list_directory(const Path&);
std::unique_ptr<OpenDirectory> open_posix_directory(const Path&);

}  // namespace cairn::io
