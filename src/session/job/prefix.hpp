#pragma once
/// Prefixes as callers name them.
#include <string>

#include "cairn/group.hpp"
#include "io/file_system.hpp"

namespace cairn {

/// The directory, absolute, since programs may change their current one later; without a separator
/// at its end. Throws invalid_argument for an empty path, unsupported for an address that is none.
io::Path checked_directory(const io::Path&);

/// Collective. The prefix, absolute, the same on all ranks and with a last part. Throws
/// invalid_argument, unsupported or disagreement.
io::Path checked_prefix(Group&, const io::Path& prefix);

}  // namespace cairn
