#pragma once
/// Readers of extents that are known beforehand, one after the other.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "cairn/file_system.hpp"

namespace cairn::io {

/// Reads each extent when asked for it.
std::unique_ptr<Reader> plain_reader(FileSystem&, std::vector<std::filesystem::path> files,
                                     std::vector<Extent>);

/// Reads for a reader: bytes [offset, offset + bytes) to `to` or, if that is null, to memory of its
/// own. It takes pieces that are still in the cache for their checksum. Returns the checksum,
/// continued from `previous`.
///
/// The kernel copies out of the page cache at half its speed to memory that lies otherwise within a
/// cache line than the bytes do in their page, as most of what malloc gives does. Such bytes are
/// read into memory of the reader, and copied from there.
class CheckedRead {
 public:
  std::uint32_t operator()(const File&, std::int64_t offset, std::int64_t bytes, std::byte* to,
                           std::uint32_t previous);

 private:
  std::byte* scratch(std::int64_t offset);

  std::unique_ptr<std::byte[]> scratch_;
};

}  // namespace cairn::io
