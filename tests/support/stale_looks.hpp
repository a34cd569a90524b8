#pragma once
/// A node whose caches are old: replaces open, statx, stat, fstat and fstatfs in this program.
#include <cerrno>

namespace cairn::test {

/// So many of the next opens and looks fail with this error.
void set_stale_looks(int count, int error = ESTALE);

/// What is opened is a file that is gone (ESTALE), until somebody looks at a name.
void remember_gone_files();

/// All files count as files on NFS.
void set_nfs(bool);

}  // namespace cairn::test
