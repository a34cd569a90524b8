#pragma once
/// Files that share their space on the disk.
#include "io/file_system.hpp"

namespace cairn::io {

/// Whether the file system of this directory is one that may share blocks: XFS or btrfs.
bool may_share_blocks(const Path& directory);
/// Makes an empty file, open for writing, share all bytes of another one. False if that cannot be
/// done.
bool clone_bytes(const Path& from, int to);

}  // namespace cairn::io
