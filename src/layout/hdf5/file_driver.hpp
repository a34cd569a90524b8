#pragma once
/// A file driver of HDF5 that works on a ByteFile.
#include <cstdint>
#include <optional>
#include <set>

#include "layout/hdf5/byte_file.hpp"
#include "layout/hdf5/library.hpp"

namespace cairn::hdf5 {

/// Makes a file access property list lead to `file`, whatever name H5Fopen or H5Fcreate is given.
/// Only one file at a time may be open through a driver. If the ByteFile throws inside a call of
/// HDF5, that call fails; rethrow() throws the error again.
class FileDriver {
 public:
  explicit FileDriver(ByteFile& file);
  ~FileDriver();
  FileDriver(const FileDriver&) = delete;
  FileDriver& operator=(const FileDriver&) = delete;

  /// From now on remembers where HDF5 writes B-trees, each by itself.
  void look_for_trees() { link_.looks_for_trees = true; }
  /// Before the file is made: elements can be put elsewhere.
  void put_elements_apart() { link_.may_part = true; }
  /// From now on elements of datasets get their places from here on, and all else where it would
  /// lie without them. Nothing: no difference is made.
  void put_elements_at(std::optional<std::int64_t> offset) { link_.elements_end = offset; }
  const std::set<std::int64_t>& trees() const { return link_.trees; }  ///< their offsets

  void set(hid_t access) const;  ///< a property list of class H5P_FILE_ACCESS
  void rethrow();

  struct Link {
    ByteFile* file;
    std::exception_ptr error;
    bool looks_for_trees = false;
    std::set<std::int64_t> trees = {};
    bool may_part = false;
    std::optional<std::int64_t> elements_end = std::nullopt;
  };

 private:
  Link link_;
  hid_t id_;
};

}  // namespace cairn::hdf5
