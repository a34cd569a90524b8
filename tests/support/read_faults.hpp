#pragma once
/// A disk that misbehaves: replaces pread in this program, for files below a folder.
#include <sys/types.h>
#include <cstdint>
#include <functional>
#include <string>

namespace cairn::test {

struct ReadCall {
  std::string path;
  bool direct;  ///< past the page cache
  std::int64_t offset;
  std::size_t bytes;
  const void* to;
};

/// What a call does instead: it returns at most so many bytes, or fails with -errno. If that is the
/// number of bytes asked for, the call is not changed. Called by any thread.
using ReadFault = std::function<std::int64_t(const ReadCall&)>;

/// Sets the fault for later reads; {}: none. Not to be called while anybody reads.
void set_read_fault(ReadFault);

}  // namespace cairn::test
