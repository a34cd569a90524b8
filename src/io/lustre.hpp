#pragma once
/// Sets over how many storage targets (OSTs) of Lustre a file is spread. The numbers are those of
/// lustre_user.h (Lustre 2.x), whose structures and calls are a stable interface.
#include <cstddef>

namespace cairn::io {

/// The system calls that this needs. A test, which has no Lustre, gives its own.
struct LustreCalls {
  bool (*is_lustre)(int directory);
  bool (*has_layout)(int directory);  ///< somebody chose one for it, or for a directory above
  int (*set_layout)(int directory, void* layout);  ///< 0, or an errno value
};
const LustreCalls& lustre_calls();

/// Spreads new files of this directory, and of those made in it, over this many targets, or over
/// all if there are fewer. Does nothing on another file system, nor, with `yields`, if somebody has
/// chosen a layout. Returns 0 or an errno value.
int stripe_new_files(int directory, int stripes, bool yields, const LustreCalls& = lustre_calls());

}  // namespace cairn::io
