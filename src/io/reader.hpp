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
class CheckedRead {
 public:
  std::uint32_t operator()(const File&, std::int64_t offset, std::int64_t bytes, std::byte* to,
                           std::uint32_t previous);

 private:
  std::vector<std::byte> scratch_;
};

}  // namespace cairn::io
