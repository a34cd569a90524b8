#pragma once
#include <sys/types.h>

namespace cairn::io {

/// A file that is made anew becomes no more open than the process makes new ones (umask). False: it
/// is, and cannot be changed. One whose mode is of its directory's making (a default ACL) stays.
bool close_as_new(int descriptor, mode_t mode);

}  // namespace cairn::io
