#include "io/clone.hpp"

#ifdef __linux__
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#endif

#include "io/descriptor.hpp"

namespace cairn::io {

bool may_share_blocks([[maybe_unused]] const Path& directory) {
#ifdef FICLONERANGE
  struct statfs status;
  if (::statfs(directory.c_str(), &status) != 0) return false;
  return status.f_type == XFS_SUPER_MAGIC || status.f_type == BTRFS_SUPER_MAGIC;
#else
  return false;
#endif
}

bool clone_bytes([[maybe_unused]] const Path& from, [[maybe_unused]] int to) {
#ifdef FICLONERANGE
  const int number = open_file(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (number < 0) return false;
  const Descriptor source(number);
  file_clone_range all = {};
  all.src_fd = source.get();  // length 0: up to its end
  return retried([&] { return ::ioctl(to, FICLONERANGE, &all); }) == 0;
#else
  return false;
#endif
}

}  // namespace cairn::io
