#pragma once
/// Files that several ranks write together: plain ones, and the datasets of HDF5 files through a
/// parallel libhdf5. A group that supports them returns SharedFiles and DatasetFiles.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "cairn/path_text.hpp"

namespace cairn {

/// One rank's handle to an open shared file. The members are collective over the ranks of the file.
/// An error is thrown on the ranks that see it, as cairn::Error (io or no_space), and leaves the
/// file usable, so that a rank that failed can still join the next calls.
class SharedFile {
 public:
  /// Without close() the file is abandoned: a destructor must not wait for other ranks.
  virtual ~SharedFile() = default;
  /// Writes each rank's bytes, any number of them, at its offset; ranks without bytes call it, too.
  /// Ranges of different ranks must not overlap.
  virtual void write_at_all(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  /// The bytes of all ranks are durable when the call has returned on all ranks.
  virtual void sync() = 0;
  virtual void close() = 0;
};

class SharedFiles {
 public:
  using Hints = std::map<std::string, std::string>;
  virtual ~SharedFiles() = default;

  /// The name of the library that writes, for messages.
  virtual std::string library() const = 0;
  /// Throws invalid_argument for hints that cannot be passed on.
  virtual void check(const Hints& hints) const = 0;
  /// Why bytes written with these hints may be lost silently; "" if no reason is known.
  virtual std::string doubt(const Hints& hints) const = 0;
  /// Collective over the group. Ranks that give the same number, 0 or more, open one file, which
  /// must exist; ranks that give -1 get null. Fails on all ranks of a file alike.
  virtual std::unique_ptr<SharedFile> open(const PathText& path, int number,
                                           const Hints& hints) = 0;
};

/// One rank's handle to an open HDF5 file. The members are collective over the group: all ranks
/// call the same ones for the same datasets in the same order. An error is thrown on the ranks that
/// see it, as cairn::Error, and leaves the file usable, so that a rank that failed can still join
/// the next calls.
class DatasetFile {
 public:
  /// A box of a dataset: one number per dimension, none for a scalar.
  struct Block {
    std::span<const std::int64_t> start, extent;
  };
  /// Without close() the file is abandoned: a destructor must not wait for other ranks.
  virtual ~DatasetFile() = default;
  /// Writes each rank's blocks of one dataset in one transfer; ranks without blocks call it, too. A
  /// rank's blocks are contiguous in the dataset's row-major order, and ascending; their elements,
  /// of the dataset's own type, lie at `bytes` one after the other. Blocks of different ranks must
  /// not overlap.
  virtual void write_all(const std::string& dataset, std::span<const Block> blocks,
                         const std::byte* bytes) = 0;
  /// Passes all data to the operating system and asks it to make them durable.
  virtual void flush() = 0;
  /// It may still write. It may cut off bytes beyond the end of the file that HDF5 knows.
  virtual void close() = 0;
};

class DatasetFiles {
 public:
  using Hints = std::map<std::string, std::string>;
  virtual ~DatasetFiles() = default;

  /// Not collective. Throws unsupported if this build's libhdf5 has no MPI, invalid_argument for
  /// hints that cannot be passed on.
  virtual void check(const Hints& hints) const = 0;
  /// Collective over the group: opens an existing file to write its datasets. It fails on all ranks
  /// alike only if each rank can open the file for writing: check that before.
  virtual std::unique_ptr<DatasetFile> open(const PathText& path, const Hints& hints) = 0;
};

}  // namespace cairn
