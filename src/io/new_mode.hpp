#pragma once
#include <sys/types.h>

namespace cairn::io {

/// Limits the access to a file that is written anew to what the process gives new files (umask).
/// Returns false if the access is wider and cannot be changed. A file with an ACL stays as it is:
/// its mode is its directory's choice (a default ACL).
bool close_as_new(int descriptor, mode_t mode);

}  // namespace cairn::io
