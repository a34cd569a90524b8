#pragma once
/// A disk that misbehaves: pread of this program, for files below a folder.
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
};

/// What a call does instead: returns so many bytes at most, or fails with -errno. The bytes asked
/// for: nothing instead. Called by any thread.
using ReadFault = std::function<std::int64_t(const ReadCall&)>;

/// From now on; {}: none. Not while anybody reads.
void set_read_fault(ReadFault);

}  // namespace cairn::test
