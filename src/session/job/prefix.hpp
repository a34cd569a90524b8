#pragma once
/// Prefixes as callers give them.
#include <string>

#include "cairn/group.hpp"
#include "io/file_system.hpp"

namespace cairn {

/// Returns the directory as an absolute path without a separator at its end, since programs may
/// change their current directory later. Throws invalid_argument for an empty path, unsupported for
/// an address that is not supported.
io::Path checked_directory(const io::Path&);

/// Collective. Returns the prefix as an absolute path; it must be the same on all ranks and have a
/// file name. Throws invalid_argument, unsupported or disagreement.
io::Path checked_prefix(Group&, const io::Path& prefix);

}  // namespace cairn
