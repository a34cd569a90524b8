#pragma once
/// For repairs: what an index says of each data file, and whether a file matches that.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "io/file_system.hpp"

namespace cairn {

/// A slice in a data file. All members must be equal for another file to serve in its place.
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
/// Data file number → its slices. Ascending.
using FileExtents = std::map<std::int32_t, std::vector<FileExtent>>;

FileExtents extents_of(const CheckpointContents&);
/// Whether one of them is the metadata.
bool has_metadata(const std::vector<FileExtent>&);

/// A data file in a bucket ends with so many bytes that no other save's have.
constexpr std::int64_t save_id_bytes = 16;
/// These bytes of the save with this uuid.
std::string save_id(std::string_view uuid);
/// The uuid of such bytes.
std::string uuid_of(std::string_view save_id);
/// Those of the checkpoint's save; empty if its metadata do not tell.
std::string save_id(const CheckpointContents&);
/// The same, by the ends of the data files, if the metadata are lost: all that end with such bytes
/// and no others must agree.
std::string found_save_id(io::FileSystem&, const CheckpointContents&);

/// Whether the file holds these slices of a checkpoint, zeros between them, and nothing behind them
/// but the tail, or, without a tail, the id of its save. False if it is missing, too short or not a
/// file; throws what reading throws otherwise.
bool is_sound(io::FileSystem&, const io::Path&, const std::vector<FileExtent>&,
              const CheckpointContents&, std::string_view tail = {});
/// Whether the file begins with these slices, and they are sound.
bool begins_with(io::FileSystem&, const io::Path&, const std::vector<FileExtent>&);

/// Copies the first `bytes` of one file into another that is open. Bytes that are equal already are
/// not written.
void write_over(const io::File& from, std::int64_t bytes, io::File& to);

}  // namespace cairn
