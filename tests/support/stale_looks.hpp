#pragma once
/// A node whose caches are old: replaces open and statx in this program.

namespace cairn::test {

/// So many of the next opens and looks fail with ESTALE.
void set_stale_looks(int count);

}  // namespace cairn::test
