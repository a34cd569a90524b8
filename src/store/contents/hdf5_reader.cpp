#include "store/contents/hdf5_reader.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "store/contents/index_end.hpp"

namespace cairn {
namespace {

// The same limit as for the index of a bundle.
constexpr std::int64_t table_limit_bytes = std::int64_t{4} << 30;

std::string read_at(const io::File& file, std::int64_t offset, std::int64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (bytes > 0) file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string last_bytes(const io::File& file) {
  const auto bytes = std::min(file.size(), hdf5::seal_bytes);
  return read_at(file, file.size() - bytes, bytes);
}

IndexFile read_table(const io::File& file) {
  const auto seal = hdf5::decode_seal(last_bytes(file), file.size());
  if (!seal.complete) {
    throw Error(Code::data_loss, "the HDF5 file does not end as Cairn left it",
                "its save did not finish, or its last bytes were cut off",
                "Use another checkpoint.");
  }
  if (seal.table_bytes > table_limit_bytes) {
    throw Error(Code::data_loss, cat("the checksum table of the HDF5 file has ", seal.table_bytes,
                                     " bytes, which no writer makes"));
  }
  require_index_end(file, seal.table_offset, seal.table_bytes);
  IndexFile loaded;
  loaded.format = Format::hdf5;
  loaded.table_offset = seal.table_offset;
  loaded.table_room = seal.table_room;
  loaded.bytes = read_at(file, seal.table_offset, seal.table_bytes);
  if (const auto crc = crc32c(loaded.bytes); crc != seal.table_crc32c) {
    throw Error(Code::data_loss, "the checksum table of the HDF5 file is damaged",
                cat("the checksum of its ", seal.table_bytes, " bytes is ", hex(crc),
                    ", stored is ", hex(seal.table_crc32c)),
                "Use another checkpoint.");
  }
  return loaded;
}

}  // namespace

bool is_own_hdf5(io::FileSystem& files, const io::Path& path) {
  const auto status = files.status(path);
  if (!status || status->is_directory) return false;
  try {
    bool is_own = false;
    io::with_open(files, path, [&](io::File& file) {
      // The seal is at the end of the file, and lost if that is cut off. The marker is near the
      // beginning.
      is_own = hdf5::looks_sealed(last_bytes(file)) ||
               read_at(file, 0, std::min(file.size(), hdf5::marker_reach)).find(hdf5::marker) !=
                   std::string::npos;
    });
    return is_own;
  } catch (const Error& error) {
    // The file was removed or cut off meanwhile.
    if (error.code() == Code::not_found || error.code() == Code::data_loss) return false;
    throw;
  }
}

IndexFile read_hdf5_table(io::FileSystem& files, const io::Path& path) {
  try {
    IndexFile loaded;
    io::with_open(files, path, [&](io::File& file) { loaded = read_table(file); });
    return loaded;
  } catch (Error& error) {
    throw error.at(path.string());
  }
}

}  // namespace cairn
