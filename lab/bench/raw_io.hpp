#pragma once
/// What a program without a checkpoint library would do with the same bytes.
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace cairn::bench {

using Bytes = std::span<const std::byte>;

enum class Files { fresh, overwritten };  ///< of the same length as before
enum class Cache { used, bypassed };      ///< O_DIRECT: memory and pieces of whole pages

/// One dataset of an HDF5 file written by hand: this rank has the rows [start, start + rows) of
/// [all_rows, columns] doubles.
struct BareDataset {
  std::string name;
  std::int64_t all_rows, columns, start, rows;
  const std::byte* data;
};

/// Collective operations of a communicator's ranks. Failures throw std::runtime_error.
class Ranks {
 public:
  explicit Ranks(MPI_Comm communicator);
  int rank() const { return rank_; }
  int size() const { return size_; }
  void barrier() const;
  double max(double value) const;
  /// From rank 0. Waiting ranks sleep, so that they do not disturb what others measure meanwhile.
  void broadcast_quietly(std::span<std::byte> bytes) const;

  /// One file in the directory, in which the bytes of each rank are at rank × length. It is synced;
  /// a new file's name, too.
  void write_collective(const std::filesystem::path& directory, Bytes bytes, Files files) const;
  void read_collective(const std::filesystem::path& directory, std::span<std::byte> bytes) const;

  /// One HDF5 file, each dataset contiguous and written in one collective transfer; synced. Not in
  /// builds without HDF5.
  void write_hdf5(const std::filesystem::path& directory, const std::vector<BareDataset>& datasets,
                  Files files) const;

  /// A file for each rank, written in pieces; synced, a new one with its name.
  void write_own(const std::filesystem::path& directory, Bytes bytes, std::size_t piece,
                 Files files, Cache cache = Cache::used) const;
  /// Overwrites a file, past the page cache; each thread writes every n-th piece.
  void overwrite_own_at_once(const std::filesystem::path& directory, Bytes bytes, std::size_t piece,
                             int threads) const;
  /// Writes past the page cache, in whole pages, from memory that need not begin on a page, like an
  /// application's. A thread checksums, copies and writes each piece, or four threads if the file
  /// exists, while the next piece is prepared.
  void write_own_copied(const std::filesystem::path& directory, Bytes bytes, Files files) const;
  /// The same with everything that makes a checkpoint, with as many files, renames and syncs as a
  /// steady save of Cairn: each rank overwrites its file of the step before the last in a staging
  /// directory and renames it; small tensors have a file; the rename of the index commits, and a
  /// state file names it; then the index of the step before is taken away, and serves the next
  /// step. Steps count from 0. Collective.
  void commit_own_copied(const std::filesystem::path& directory, Bytes bytes, int step) const;
  void read_own(const std::filesystem::path& directory, std::span<std::byte> bytes,
                std::size_t piece, Cache cache = Cache::used) const;
  /// Reads in pieces that fit the cache, with the checksum that a checkpoint needs.
  std::uint32_t read_own_checked(const std::filesystem::path& directory,
                                 std::span<std::byte> bytes) const;
  /// The reverse of write_own_copied: two threads read whole pieces past the page cache; each piece
  /// is checksummed and copied to its place.
  std::uint32_t read_own_copied(const std::filesystem::path& directory,
                                std::span<std::byte> bytes) const;

 private:
  MPI_Comm communicator_;
  int rank_ = 0, size_ = 1;
};

/// Memory on huge pages if the system has them, already touched.
class Pages {
 public:
  explicit Pages(std::size_t bytes);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();
  std::span<std::byte> bytes() const { return {data_, bytes_}; }

 private:
  std::size_t bytes_, mapped_ = 0;
  void* start_ = nullptr;
  std::byte* data_ = nullptr;
};

/// The same bytes in memory like an application's: on ordinary pages, not aligned to them.
class UnalignedCopy {
 public:
  explicit UnalignedCopy(Bytes bytes) : memory_(shift + bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), memory_.begin() + shift);
  }
  std::span<std::byte> bytes() { return std::span(memory_).subspan(shift); }

 private:
  static constexpr std::ptrdiff_t shift = 64;
  std::vector<std::byte> memory_;
};

/// Forgets the cached pages of all files below a directory, and of all other files where that is
/// allowed. Returns how.
std::string drop_caches(const std::filesystem::path& directory);
/// Waits until everything on the file system of this directory is on disk.
void sync_file_system(const std::filesystem::path& directory);

}  // namespace cairn::bench
