#pragma once
/// A node whose caches are old: replaces open and statx in this program.
#include <cerrno>

namespace cairn::test {

/// So many of the next opens and looks fail with this error.
void set_stale_looks(int count, int error = ESTALE);

}  // namespace cairn::test
