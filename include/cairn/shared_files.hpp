#pragma once
/// Files that several ranks write together: plain ones, and the datasets of HDF5 files through a
/// parallel libhdf5. A group that can do that hands out SharedFiles and DatasetFiles.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace cairn {

/// One rank's part in an open file. The members are collective over the ranks of the file; an error
/// is thrown on the ranks that see it, as cairn::Error (io or no_space), and leaves the file
/// usable, so that a rank which failed can go on to take part.
class SharedFile {
 public:
  /// Without close() the file is let go: a destructor can wait for nobody.
  virtual ~SharedFile() = default;
  /// Each rank's bytes at its offset, in any number; ranks with none take part as well. Ranges of
  /// different ranks do not overlap.
  virtual void write_at_all(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  /// What all ranks wrote is durable when all have returned.
  virtual void sync() = 0;
  virtual void close() = 0;
};

class SharedFiles {
 public:
  using Hints = std::map<std::string, std::string>;
  virtual ~SharedFiles() = default;

  /// What writes, for messages.
  virtual std::string library() const = 0;
  /// Throws invalid_argument for hints that cannot be passed on.
  virtual void check(const Hints& hints) const = 0;
  /// Why bytes written with these hints may be lost silently; "" where nothing is known.
  virtual std::string doubt(const Hints& hints) const = 0;
  /// Collective over the group. Ranks that give the same number, 0 or more, open one file, which
  /// exists; others give -1 and get null. Fails on all ranks of a file alike.
  virtual std::unique_ptr<SharedFile> open(const std::filesystem::path& path, int number,
                                           const Hints& hints) = 0;
};

/// One rank's part in an open file. The members are collective over the group: all ranks call the
/// same ones for the same datasets in the same order. An error is thrown on the ranks that see it,
/// as cairn::Error, and leaves the file usable, so that a rank which failed can go on to take part.
class DatasetFile {
 public:
  /// A box of a dataset: as many numbers as it has dimensions, none for a scalar.
  struct Block {
    std::span<const std::int64_t> start, extent;
  };
  /// Without close() the file is let go: a destructor can wait for nobody.
  virtual ~DatasetFile() = default;
  /// Each rank's blocks of one dataset in one transfer; ranks with none take part as well. A rank's
  /// blocks are runs of the dataset's row-major order, ascending; their elements, of the dataset's
  /// own type, lie at `bytes` one behind the other. Blocks of different ranks do not overlap.
  virtual void write_all(const std::string& dataset, std::span<const Block> blocks,
                         const std::byte* bytes) = 0;
  /// Hands everything to the operating system and asks it to be made durable.
  virtual void flush() = 0;
  /// May write more. Bytes beyond the end that HDF5 knows of may be gone from the file's end.
  virtual void close() = 0;
};

class DatasetFiles {
 public:
  using Hints = std::map<std::string, std::string>;
  virtual ~DatasetFiles() = default;

  /// Throws unsupported where this build's libhdf5 has no MPI, invalid_argument for hints that
  /// cannot be passed on. Local.
  virtual void check(const Hints& hints) const = 0;
  /// Collective over the group: opens a file that is there to write to its datasets. Fails on all
  /// ranks alike, if each can open the file for writing at all: see to that before.
  virtual std::unique_ptr<DatasetFile> open(const std::filesystem::path& path,
                                            const Hints& hints) = 0;
};

}  // namespace cairn
