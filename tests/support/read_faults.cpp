#include "support/read_faults.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <mutex>

namespace cairn::test {
namespace {

ReadFault& read_fault() {
  static ReadFault fault;
  return fault;
}

ssize_t faulty_pread(int descriptor, void* to, std::size_t bytes, off_t offset) {
  if (const auto& fault = read_fault()) {
    char path[PATH_MAX];
    const auto name = "/proc/self/fd/" + std::to_string(descriptor);
    const auto length = ::readlink(name.c_str(), path, sizeof path);
    const bool direct = (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
    const auto size = static_cast<std::size_t>(std::max<ssize_t>(length, 0));
    const auto result = fault({std::string(path, size), direct, offset, bytes, to});
    if (result < 0) {
      errno = static_cast<int>(-result);
      return -1;
    }
    // All bytes are read, since a direct read must be of whole pages; but fewer are reported.
    return std::min<ssize_t>(::syscall(SYS_pread64, descriptor, to, bytes, offset), result);
  }
  return ::syscall(SYS_pread64, descriptor, to, bytes, offset);
}

}  // namespace

void set_read_fault(ReadFault fault) { read_fault() = std::move(fault); }

}  // namespace cairn::test

extern "C" ssize_t pread(int descriptor, void* to, std::size_t bytes, off_t offset) {
  return cairn::test::faulty_pread(descriptor, to, bytes, offset);
}
