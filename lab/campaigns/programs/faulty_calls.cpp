// To be preloaded (LD_PRELOAD): of this process' system calls on files below a directory, one
// fails, or comes back late. The environment says which:
//
//   CAIRN_FAULT_BELOW    the directory, absolute; without it nothing happens
//   CAIRN_FAULT_AT       which of these calls, from 0 on: open, close, pwrite, pread, fsync,
//                        ftruncate, fallocate, rename, linkat, unlink, mkdir, rmdir, chmod, stat
//                        and its like, statvfs, locks, opendir, readdir
//   CAIRN_FAULT_KIND     io, no_space, quota, stale, read_only: it fails; done_but_fails: it is
//                        carried out and fails; short: half of the bytes; interrupted: EINTR, which
//                        its caller must try again; hang: it comes back late; gone: never
//   CAIRN_FAULT_SECONDS  how late
//   CAIRN_FAULT_RANK     of which rank; none: of each
//   CAIRN_FAULT_LOG      a file that gets a line when it has happened
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

const char* setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

// This process' rank, as Open MPI and MPICH tell it.
const char* rank() {
  const char* open_mpi = setting("OMPI_COMM_WORLD_RANK");
  return *open_mpi ? open_mpi : setting("PMI_RANK");
}

struct Plan {
  const char* below = setting("CAIRN_FAULT_BELOW");
  const char* kind = setting("CAIRN_FAULT_KIND");
  long at = atol(setting("CAIRN_FAULT_AT"));
  bool mine = !*setting("CAIRN_FAULT_RANK") || strcmp(setting("CAIRN_FAULT_RANK"), rank()) == 0;
  bool is(const char* name) const { return strcmp(kind, name) == 0; }
};
const Plan& plan() {
  static const Plan the_one;
  return the_one;
}

void tell(const char* call, const char* path) {
  const int log = static_cast<int>(syscall(SYS_openat, AT_FDCWD, setting("CAIRN_FAULT_LOG"),
                                           O_WRONLY | O_CREAT | O_APPEND, 0666));
  if (log < 0) return;
  char line[PATH_MAX + 100];
  const int size = snprintf(line, sizeof line, "%s of %s %s\n", plan().kind, call, path);
  if (syscall(SYS_write, log, line, size) < 0) abort();
  syscall(SYS_close, log);
}

// Whether this call is the one that fails.
bool is_struck(const char* call, const char* path) {
  static std::atomic<long> calls = 0;
  const auto& the = plan();
  const auto length = strlen(the.below);
  if (length == 0 || !the.mine || strncmp(path, the.below, length) != 0) return false;
  if (calls++ != the.at) return false;
  tell(call, path);
  if (the.is("gone")) {
    for (;;) pause();
  }
  if (the.is("hang")) {
    const timespec so_long{atol(setting("CAIRN_FAULT_SECONDS")), 0};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &so_long, nullptr);
    return false;
  }
  return true;
}
bool is_struck(const char* call, int descriptor) {
  char name[64], path[PATH_MAX] = "";
  snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
  const auto length = syscall(SYS_readlink, name, path, sizeof path - 1);
  return length > 0 && is_struck(call, path);
}

int number() {
  if (plan().is("no_space")) return ENOSPC;
  if (plan().is("quota")) return EDQUOT;
  if (plan().is("stale")) return ESTALE;
  if (plan().is("read_only")) return EROFS;
  return plan().is("interrupted") ? EINTR : EIO;
}

// Carries out a call that changes something; the other one, a call that only reads.
template <class F>
long change(bool struck, F&& call) {
  if (!struck || plan().is("short")) return call();
  if (plan().is("done_but_fails")) call();
  errno = number();
  return -1;
}
template <class F>
long look(bool struck, F&& call) {
  const bool takes_space = plan().is("no_space") || plan().is("quota") || plan().is("read_only");
  if (!struck || takes_space || plan().is("short")) return call();
  errno = number();
  return -1;
}
// The same for calls that no signal interrupts.
template <class F>
long change_at_once(bool struck, F&& call) {
  return change(struck && !plan().is("interrupted"), call);
}

size_t part_of(bool struck, size_t bytes) {
  return struck && plan().is("short") && bytes > 1 ? bytes / 2 : bytes;
}

long opened(const char* path, int flags, mode_t mode) {
  const auto call = [&] { return syscall(SYS_openat, AT_FDCWD, path, flags, mode); };
  const bool struck = is_struck("open", path);
  if ((flags & O_CREAT) == 0) return look(struck, call);
  if (!struck || !plan().is("done_but_fails")) return change(struck, call);
  const auto made = call();
  if (made >= 0) syscall(SYS_close, made);
  errno = EIO;
  return -1;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return static_cast<int>(opened(path, flags, mode));
}
int open64(const char*, int, ...) __attribute__((alias("open")));

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  const bool struck = is_struck("pwrite", descriptor);
  const auto some = part_of(struck, count);
  return change(struck, [&] { return syscall(SYS_pwrite64, descriptor, bytes, some, offset); });
}
ssize_t pwrite64(int, const void*, size_t, off_t) __attribute__((alias("pwrite")));

ssize_t pread(int descriptor, void* bytes, size_t count, off_t offset) {
  const bool struck = is_struck("pread", descriptor);
  const auto some = part_of(struck, count);
  return look(struck, [&] { return syscall(SYS_pread64, descriptor, bytes, some, offset); });
}
ssize_t pread64(int, void*, size_t, off_t) __attribute__((alias("pread")));

int fsync(int descriptor) {
  return static_cast<int>(
      change(is_struck("fsync", descriptor), [&] { return syscall(SYS_fsync, descriptor); }));
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  return static_cast<int>(change(is_struck("ftruncate", descriptor),
                                 [&] { return syscall(SYS_ftruncate, descriptor, bytes); }));
}
int ftruncate64(int, off_t) noexcept __attribute__((alias("ftruncate")));

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  return static_cast<int>(change(is_struck("fallocate", descriptor), [&] {
    return syscall(SYS_fallocate, descriptor, mode, offset, bytes);
  }));
}
int fallocate64(int, int, off_t, off_t) __attribute__((alias("fallocate")));

int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(
      change_at_once(is_struck("rename", to), [&] { return syscall(SYS_rename, from, to); }));
}
int renameat2(int from_at, const char* from, int to_at, const char* to,
              unsigned int flags) noexcept {
  return static_cast<int>(change_at_once(is_struck("renameat2", to), [&] {
    return syscall(SYS_renameat2, from_at, from, to_at, to, flags);
  }));
}
int linkat(int from_at, const char* from, int to_at, const char* to, int flags) noexcept {
  return static_cast<int>(change_at_once(is_struck("linkat", to), [&] {
    return syscall(SYS_linkat, from_at, from, to_at, to, flags);
  }));
}
int chmod(const char* path, mode_t mode) noexcept {
  return static_cast<int>(
      change_at_once(is_struck("chmod", path), [&] { return syscall(SYS_chmod, path, mode); }));
}
// The write that close delays fails; the descriptor is closed nevertheless.
int close(int descriptor) {
  const bool struck = is_struck("close", descriptor);
  const auto closed = syscall(SYS_close, descriptor);
  return static_cast<int>(change(struck, [&] { return closed; }));
}
int unlink(const char* path) noexcept {
  return static_cast<int>(
      change_at_once(is_struck("unlink", path), [&] { return syscall(SYS_unlink, path); }));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return static_cast<int>(
      change_at_once(is_struck("mkdir", path), [&] { return syscall(SYS_mkdir, path, mode); }));
}
int rmdir(const char* path) noexcept {
  return static_cast<int>(
      change_at_once(is_struck("rmdir", path), [&] { return syscall(SYS_rmdir, path); }));
}

int statx(int at, const char* path, int flags, unsigned int mask, struct statx* found) noexcept {
  const bool struck =
      (*path ? is_struck("statx", path) : is_struck("statx", at)) && !plan().is("interrupted");
  return static_cast<int>(
      look(struck, [&] { return syscall(SYS_statx, at, path, flags, mask, found); }));
}
int stat(const char* path, struct stat* found) noexcept {
  const bool struck = is_struck("stat", path) && !plan().is("interrupted");
  return static_cast<int>(
      look(struck, [&] { return syscall(SYS_newfstatat, AT_FDCWD, path, found, 0); }));
}
int lstat(const char* path, struct stat* found) noexcept {
  const bool struck = is_struck("lstat", path) && !plan().is("interrupted");
  return static_cast<int>(look(
      struck, [&] { return syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW); }));
}
int fstat(int descriptor, struct stat* found) noexcept {
  const bool struck = is_struck("fstat", descriptor) && !plan().is("interrupted");
  return static_cast<int>(look(struck, [&] { return syscall(SYS_fstat, descriptor, found); }));
}
int statvfs(const char* path, struct statvfs* found) noexcept {
  using Statvfs = int (*)(const char*, struct statvfs*);
  static const auto real = reinterpret_cast<Statvfs>(dlsym(RTLD_NEXT, "statvfs"));
  return static_cast<int>(look(is_struck("statvfs", path), [&] { return real(path, found); }));
}
// Only locks are counted.
int fcntl(int descriptor, int command, ...) {
  va_list rest;
  va_start(rest, command);
  auto* const argument = va_arg(rest, void*);
  va_end(rest);
  const auto call = [&] { return syscall(SYS_fcntl, descriptor, command, argument); };
  const bool locks = command == F_OFD_SETLK || command == F_OFD_GETLK || command == F_SETLK;
  return static_cast<int>(locks ? look(is_struck("fcntl", descriptor), call) : call());
}
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));
struct dirent* readdir(DIR* directory) {
  using Readdir = struct dirent* (*)(DIR*);
  static const auto real = reinterpret_cast<Readdir>(dlsym(RTLD_NEXT, "readdir"));
  struct dirent* found = nullptr;
  const bool struck = is_struck("readdir", dirfd(directory)) && !plan().is("interrupted");
  if (look(struck, [&] { return found = real(directory), 0L; }) != 0) return nullptr;
  return found;
}
DIR* opendir(const char* path) {
  using Opendir = DIR* (*)(const char*);
  static const auto real = reinterpret_cast<Opendir>(dlsym(RTLD_NEXT, "opendir"));
  DIR* found = nullptr;
  const bool struck = is_struck("opendir", path) && !plan().is("interrupted");
  look(struck, [&] { return (found = real(path)) ? 0L : -1L; });
  return found;
}

}  // extern "C"
