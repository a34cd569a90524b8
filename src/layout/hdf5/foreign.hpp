#pragma once
/// Reads datasets of any HDF5 file, whoever wrote it, in all layouts, filters and byte orders that
/// libhdf5 reads. None of their bytes is under a checksum of ours.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/dtype.hpp"
#include "layout/hdf5/byte_file.hpp"

namespace cairn::hdf5 {

struct ForeignDataset {
  DType dtype{};
  Dims shape;
  bool operator==(const ForeignDataset&) const = default;
};

/// Not thread-safe, but any number of files may be open. Throws data_loss for what libhdf5 cannot
/// read, unsupported without libhdf5 or a filter's plugin, and whatever the ByteFile throws.
class ForeignFile {
 public:
  explicit ForeignFile(std::unique_ptr<ByteFile>,
                       std::int64_t strings_limit_bytes = std::int64_t{1} << 30);
  ~ForeignFile();
  ForeignFile(const ForeignFile&) = delete;
  ForeignFile& operator=(const ForeignFile&) = delete;

  /// Nothing if no object has this path from the root. Throws invalid_argument if it is no dataset;
  /// unsupported for types without a DType and for data that lies in other files.
  std::optional<ForeignDataset> find(const std::string& path);
  /// Reads the elements of a box, row-major, in this machine's byte order. They are converted if
  /// they are stored with other bits than the DType from find() has. Throws data_loss unless the
  /// dataset is as expected: the caller, or another rank, has made room for that.
  void read(const std::string& path, const ForeignDataset& expected, const Box&, std::byte* out);
  /// Reads all strings of a dataset. Strings of fixed length lose their padding. Throws unsupported
  /// if the strings take more memory than the limit, however few bytes of the file ask for that;
  /// data_loss as read() does.
  std::vector<std::string> read_strings(const std::string& path, const ForeignDataset& expected);

 private:
  void require(const std::string& path, const ForeignDataset& expected);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::hdf5
