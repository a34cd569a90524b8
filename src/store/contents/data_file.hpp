#pragma once
/// What an index says of each data file, and whether a file is that: for repairs.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "io/file_system.hpp"

namespace cairn {

/// A slice in a data file, with all that must be the same for another file to serve in its place.
struct FileExtent {
  std::int64_t offset = 0, size = 0;
  std::uint32_t crc32c = 0;
  DType dtype{};
  std::int64_t count = 0;  ///< of strings
  std::string key;
  Dims shape;
  Box box;
  std::int64_t end() const { return offset + size; }
  bool operator==(const FileExtent&) const;
};
/// By data file, ascending.
using FileExtents = std::map<std::int32_t, std::vector<FileExtent>>;

FileExtents extents_of(const CheckpointContents&);
/// Whether one of them is the metadata.
bool has_metadata(const std::vector<FileExtent>&);

/// Whether the file holds these slices, zeros between them, and nothing behind them but the tail.
/// Throws what reading throws, but for a file that is missing, too short or none.
bool is_sound(io::FileSystem&, const io::Path&, const std::vector<FileExtent>&, bool big_endian,
              std::string_view tail = {});
/// Whether the file begins with these slices, which are sound.
bool begins_with(io::FileSystem&, const io::Path&, const std::vector<FileExtent>&);

/// The first bytes of one file into another that is open, which may have others already: what is
/// the same is not written.
void write_over(const io::File& from, std::int64_t bytes, io::File& to);

}  // namespace cairn
