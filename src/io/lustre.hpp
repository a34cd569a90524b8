#pragma once
/// Lustre: over how many of its storage targets (OSTs) a file lies. The numbers are those of
/// lustre_user.h (Lustre 2.x), whose structures and calls are an interface that stays.
#include <cstddef>

namespace cairn::io {

/// The calls of the operating system that this takes: a test, which has no Lustre, gives its own.
struct LustreCalls {
  bool (*is_lustre)(int directory);
  bool (*has_layout)(int directory);  ///< somebody chose one for it, or for a directory above
  int (*set_layout)(int directory, void* layout);  ///< 0, or an errno value
};
const LustreCalls& lustre_calls();

/// New files of this directory, and of those made in it, lie over so many targets, or over all if
/// there are fewer. Does nothing on another file system, nor, with `yields`, where somebody has
/// chosen a layout. 0, or an errno value.
int stripe_new_files(int directory, int stripes, bool yields, const LustreCalls& = lustre_calls());

}  // namespace cairn::io
