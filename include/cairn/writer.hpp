#pragma once
/// Who puts bytes into data files.
#include <map>
#include <string>

namespace cairn {

enum class Writer {
  posix,   ///< each rank, or its io rank, files of its own
  mpi_io,  ///< ranks share files and write them together; for groups that can (Group::shared_files)
  /// All ranks write the datasets of an HDF5 file through libhdf5 (`H5Dwrite`, collective). Only
  /// with Format::hdf5, for groups of MPI ranks and a parallel libhdf5; the file has the same bytes
  /// as with the others. Of MpiIoOptions, `hints` and `read_back` count.
  hdf5_collective
};

/// Of Writer::mpi_io and hdf5_collective; the same on all ranks. What is restored never depends on
/// it.
struct MpiIoOptions {
  /// Data files of a save, besides those of dense tensors: 1 is one for all ranks, 0 one a node,
  /// and no more than ranks. Ranks of a node stay together, in rank order. Each rank's shards are
  /// one range of bytes there: a policy still cuts tensors, but has no say in these files, only in
  /// those of dense tensors. A warning says so when a manager with a policy is made.
  int files = 0;
  /// Given to the MPI library as they are. None is ever added: some make Open MPI lose bytes.
  std::map<std::string, std::string> hints = {};
  /// Each rank reads what it wrote back through the operating system, after the sync and before the
  /// commit, and compares checksums. Done in any case where the MPI library is known to lose bytes
  /// with such hints, parameters or numbers of ranks: Open MPI before 4.1.7 and 5.0.6 with 16 and
  /// more.
  bool read_back = false;
};

}  // namespace cairn
