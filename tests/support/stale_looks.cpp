#include "support/stale_looks.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>

namespace cairn::test {
namespace {

std::atomic<int> left = 0, error = 0;
std::atomic<bool> nfs = false, remembers = false;

bool is_stale() {
  if (left.load() <= 0) return false;
  --left;
  errno = error;
  return true;
}

}  // namespace

void set_stale_looks(int count, int its_error) {
  error = its_error;
  left = count;
}

void remember_gone_files() { remembers = true; }

void set_nfs(bool is_nfs) { nfs = is_nfs; }

}  // namespace cairn::test

extern "C" int open(const char* path, int flags, ...) {
  if (cairn::test::is_stale()) return -1;
  va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

extern "C" int statx(int directory, const char* path, int flags, unsigned mask,
                     struct statx* found) noexcept {
  if (cairn::test::is_stale()) return -1;
  if (*path != '\0') cairn::test::remembers = false;
  return static_cast<int>(::syscall(SYS_statx, directory, path, flags, mask, found));
}

extern "C" int stat(const char* path, struct stat* found) noexcept {
  cairn::test::remembers = false;
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, found, 0));
}

extern "C" int fstat(int descriptor, struct stat* found) noexcept {
  if (cairn::test::remembers) {
    errno = ESTALE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fstat, descriptor, found));
}

extern "C" int fstatfs(int descriptor, struct statfs* found) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_fstatfs, descriptor, found));
  if (cairn::test::nfs) found->f_type = 0x6969;  // NFS_SUPER_MAGIC
  return result;
}
