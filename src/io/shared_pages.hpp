#pragma once
/// Pages that several nodes write parts of.
#include "io/file_system.hpp"

namespace cairn::io {

/// Lets other nodes write into pages of a file while this one does.
///
/// Where a program has written a part of a page, Linux's NFS client writes the whole page, with
/// zeros or with what it has read before in place of what other nodes have written since; but not
/// while the program has a lock of a part of the file (nfs_can_extend_write() in the kernel's
/// fs/nfs/write.c). So a file on NFS is locked between a write and the next sync, and no longer:
/// MPI-IO locks whole files while it writes. Where nothing can be locked, the file's bytes go past
/// the page cache. For one open file, and one thread at a time.
class SharedPages {
 public:
  /// Before each write. Throws if other nodes' bytes cannot be kept.
  void begin_write(int descriptor, const Path& path) {
    if (state_ == State::unknown || state_ == State::free) lock(descriptor, path);
  }
  /// After a sync. What this node has read of the pages may be old, so it will ask the server.
  void end_write(int descriptor);

 private:
  enum class State { unknown, free, locked, needs_none };
  void lock(int descriptor, const Path&);

  State state_ = State::unknown;
};

}  // namespace cairn::io
