#include "io/shared_pages.hpp"

#include <fcntl.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/vfs.h>
#endif

#include <cstdint>

#include "io/descriptor.hpp"
#include "io/system_error.hpp"

namespace cairn::io {
#ifdef __linux__
namespace {

constexpr std::uint32_t nfs_magic = 0x6969;  // NFS_SUPER_MAGIC

bool is_nfs(int descriptor) {
  struct statfs status;
  return ::fstatfs(descriptor, &status) == 0 &&
         static_cast<std::uint32_t>(status.f_type) == nfs_magic;
}

// One byte behind all others; a shared lock, so that nobody waits for it.
bool set(int descriptor, short type) {
  struct flock region = {};
  region.l_type = type;
  region.l_whence = SEEK_SET;
  region.l_start = off_t{1} << 62;
  region.l_len = 1;
  return retried([&] { return ::fcntl(descriptor, F_OFD_SETLK, &region); }) == 0;
}

}  // namespace

void SharedPages::lock(int descriptor, const Path& path) {
  if (state_ == State::unknown && !is_nfs(descriptor)) {
    state_ = State::needs_none;
  } else if (set(descriptor, F_RDLCK)) {
    state_ = State::locked;
  } else {
    // NFS takes any piece of memory, at any offset.
    const int flags = ::fcntl(descriptor, F_GETFL);
    if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_DIRECT) != 0) {
      throw system_error(errno, "lock a part of", path);
    }
    state_ = State::needs_none;
  }
}

void SharedPages::end_write(int descriptor) {
  if (state_ != State::locked) return;
  // A lock that is taken makes the client ask for what it has read before.
  if (!set(descriptor, F_RDLCK)) ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  if (set(descriptor, F_UNLCK)) state_ = State::free;
}
#else
void SharedPages::lock(int, const Path&) { state_ = State::needs_none; }
void SharedPages::end_write(int) {}
#endif

}  // namespace cairn::io
