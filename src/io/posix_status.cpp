#include "io/posix_status.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "io/descriptor.hpp"
#include "io/system_error.hpp"

namespace cairn::io {
namespace {

constexpr std::int64_t second = 1'000'000'000;

// Whether an error of a path says that nothing is there, or that links lead to nothing.
bool leads_nowhere(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

#ifdef STATX_BTIME
// ENOSYS: the kernel has no statx. EPERM: a sandbox refuses it.
bool lacks_statx(int error) { return error == ENOSYS || error == EPERM; }

Status status_from(const struct statx& status) {
  const auto size = static_cast<std::int64_t>(status.stx_size);
  const bool tells_birth = (status.stx_mask & STATX_BTIME) != 0;
  return {S_ISDIR(status.stx_mode),
          size,
          static_cast<double>(status.stx_mtime.tv_sec) +
              1e-9 * static_cast<double>(status.stx_mtime.tv_nsec),
          {status.stx_ino, size,
           tells_birth ? status.stx_btime.tv_sec * second + status.stx_btime.tv_nsec : 0},
          static_cast<std::int64_t>(status.stx_nlink),
          access_of(status.stx_mode),
          static_cast<std::int64_t>(status.stx_blocks) * 512,
          std::uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor,
          status.stx_ctime.tv_sec * second + status.stx_ctime.tv_nsec};
}
#endif

}  // namespace

std::optional<Status> status_at(const Path& path) {
#ifdef STATX_BTIME
  struct statx more;
  if (looked_up([&] {
        return ::statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &more);
      }) == 0) {
    return status_from(more);
  }
  if (!lacks_statx(errno)) {
    if (leads_nowhere(errno)) return std::nullopt;
    throw system_error(errno, "examine", path);
  }
#endif
  // Without statx nobody tells when a file was made.
  struct stat status;
  if (looked_up([&] { return ::stat(path.c_str(), &status); }) != 0) {
    if (leads_nowhere(errno)) return std::nullopt;
    throw system_error(errno, "examine", path);
  }
  return Status{S_ISDIR(status.st_mode),
                status.st_size,
                static_cast<double>(status.st_mtim.tv_sec) +
                    1e-9 * static_cast<double>(status.st_mtim.tv_nsec),
                {status.st_ino, status.st_size, 0},
                static_cast<std::int64_t>(status.st_nlink),
                access_of(status.st_mode),
                static_cast<std::int64_t>(status.st_blocks) * 512,
                status.st_dev,
                status.st_ctim.tv_sec * second + status.st_ctim.tv_nsec};
}

FileId id_of(int descriptor, const Path& path) {
#ifdef STATX_BTIME
  struct statx more;
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &more) == 0) {
    return status_from(more).id;
  }
  if (!lacks_statx(errno)) throw system_error(errno, "examine", path);
#endif
  struct stat status;
  if (::fstat(descriptor, &status) != 0) throw system_error(errno, "examine", path);
  return FileId{status.st_ino, status.st_size, 0};
}

}  // namespace cairn::io
