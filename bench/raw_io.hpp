#pragma once
/// What a program without a checkpoint library would do with the same bytes.
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace cairn::bench {

using Bytes = std::span<const std::byte>;

/// Collective operations of a communicator's ranks. Failures throw std::runtime_error.
class Ranks {
 public:
  explicit Ranks(MPI_Comm communicator);
  int rank() const { return rank_; }
  int size() const { return size_; }
  void barrier() const;
  double max(double value) const;

  /// One new file in the directory, each rank's bytes at rank × length; synced, with its name.
  void write_collective(const std::filesystem::path& directory, Bytes bytes) const;
  void read_collective(const std::filesystem::path& directory, std::span<std::byte> bytes) const;

  /// The same as one contiguous dataset of an HDF5 file, in one collective transfer. Not in builds
  /// without HDF5.
  void write_hdf5(const std::filesystem::path& directory, Bytes bytes) const;

  /// Removes the file of write_collective, if it is there, with its name.
  void remove_collective(const std::filesystem::path& directory) const;

  /// A new file for each rank, written in pieces; synced, with its name. `direct`: past the page
  /// cache, for memory and pieces of whole pages.
  void write_own(const std::filesystem::path& directory, Bytes bytes, std::size_t piece,
                 bool direct = false) const;
  /// The same into the file that is there, of this length.
  void overwrite_own(const std::filesystem::path& directory, Bytes bytes, std::size_t piece,
                     bool direct = false) const;
  void read_own(const std::filesystem::path& directory, std::span<std::byte> bytes,
                std::size_t piece) const;
  void remove_own(const std::filesystem::path& directory) const;
  /// Reads in pieces that stay in the cache, with the checksum that a checkpoint needs.
  std::uint32_t read_own_checked(const std::filesystem::path& directory,
                                 std::span<std::byte> bytes) const;

 private:
  MPI_Comm communicator_;
  int rank_ = 0, size_ = 1;
};

/// Forgets the cached pages of all files below a directory.
void drop_caches(const std::filesystem::path& directory);
/// Waits until everything on the file system of this directory is on disk.
void sync_file_system(const std::filesystem::path& directory);

}  // namespace cairn::bench
