#pragma once
/// Prefixes as callers name them.
#include <string>

#include "cairn/group.hpp"
#include "io/file_system.hpp"

namespace cairn {

/// Collective. The prefix, absolute, the same on all ranks and with a last part. Throws
/// invalid_argument or disagreement.
io::Path checked_prefix(Group&, const io::Path& prefix);

}  // namespace cairn
