#pragma once
/// What the system says of a file.
#include <sys/types.h>

#include <optional>

#include "io/file_system.hpp"

namespace cairn::io {

/// Nothing if nothing is there, or if links lead to nothing.
std::optional<Status> status_at(const Path&);
/// Of an open file; the path is for errors.
FileId id_of(int descriptor, const Path&);
/// Status::access.
inline unsigned access_of(mode_t mode) { return mode & 0666; }

}  // namespace cairn::io
