#pragma once
/// Reading extents that are known beforehand: the disk fetches the next ones while the caller works
/// on those that it has.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace cairn::io {

class File;
class FileSystem;

/// Bytes of one of several files, and the memory for them.
struct Extent {
  int file = 0;
  std::int64_t offset = 0, bytes = 0;
  std::byte* to = nullptr;  ///< null: they are only checksummed
  bool early = false;  ///< nothing else uses that memory: it may be written before its turn comes
};

/// For one thread, like the file system that made it, which outlives it.
class Reader {
 public:
  virtual ~Reader() = default;
  /// The next extent: returns when its bytes are in place, with their CRC-32C. Throws what opening
  /// the file or File::read_at throws; the call after that goes on with the extent that follows.
  virtual std::uint32_t next() = 0;
};

/// Reads each extent when asked for it.
std::unique_ptr<Reader> plain_reader(FileSystem&, std::vector<std::filesystem::path> files,
                                     std::vector<Extent>);

/// Reads on behalf of a reader, in pieces that are still in the cache when they are checked: bytes
/// [offset, offset + bytes) to `to`, or if that is null to memory of its own.
class CheckedRead {
 public:
  std::uint32_t operator()(const File&, std::int64_t offset, std::int64_t bytes, std::byte* to,
                           std::uint32_t previous);

 private:
  std::vector<std::byte> scratch_;
};

}  // namespace cairn::io
