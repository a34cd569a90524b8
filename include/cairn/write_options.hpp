#pragma once
/// Who puts bytes into data files, and how: the group `write` of options. What visit() and words()
/// are for stands at the head of cairn/options.hpp.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace cairn {

namespace io {
class FileSystem;  // cairn/file_system.hpp
}

enum class Writer {
  posix,   ///< each rank, or its io rank, files of its own
  mpi_io,  ///< ranks share files and write them together; for groups that can (Group::shared_files)
  /// All ranks write the datasets of an HDF5 file through libhdf5 (`H5Dwrite`, collective). Only
  /// with Format::hdf5, for groups of MPI ranks and a parallel libhdf5; the file has the same bytes
  /// as with the others. Of MpiIoOptions, `hints` and `read_back` count.
  hdf5_collective
};
constexpr std::array<const char*, 3> words(Writer) {
  return {"posix", "mpi_io", "hdf5_collective"};
}

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

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [files, hints, read_back] = self;
    options.validated("files", files);
    options.validated("hints", hints);
    options.validated("read_back", read_back);
  }
};

/// Which ranks touch files: TensorFlow's experimental_io_device, for ranks.
///
/// Io ranks write and read data files for themselves and for the ranks that they serve, which send
/// them the bytes of a save and receive those of a restore. The same on all ranks. Neither the
/// contents of the files nor later restores depend on this choice.
///
/// Rank 0 is always an io rank: it commits, and reads the index. A rank is served on its own node
/// if an io rank is there, and io ranks of a node serve about equally many. Registered savers are
/// the application's own input and output: they run on every rank, and a rank that returned
/// bundles links their files and leaves a record of them.
struct IoRanks {
  enum class Choice { everyone, one_a_node, count, automatic };
  friend constexpr std::array<const char*, 4> words(Choice) {
    return {"everyone", "one_a_node", "count", "automatic"};
  }

  static IoRanks everyone() { return {}; }
  static IoRanks one_a_node() { return {.choice = Choice::one_a_node}; }
  /// So many, over all nodes as evenly as possible; everyone if the job has no more ranks.
  static IoRanks count(int ranks) { return {.choice = Choice::count, .ranks = ranks}; }

  /// Everyone, as long as that makes no more data files than this. A larger job has four io ranks a
  /// node, or fewer so that there are no more than this, and each joins what it serves in one file.
  /// Limits shards under the default policy: other policies, and dense tensors, say by themselves
  /// how many files they want.
  static IoRanks automatic(int most_files = 1024) {
    return {.choice = Choice::automatic, .ranks = most_files};
  }

  Choice choice = Choice::everyone;
  int ranks = 0;  ///< of Choice::count: io ranks; of Choice::automatic: data files; 1 or more
  /// How many bytes of other ranks' shards an io rank holds at a time, in whole chunks of
  /// chunk_bytes and at least one: this says how many ranks it serves at once. Besides, it takes up
  /// to 256 KiB for each rank that it serves, in which small tensors are gathered. Dense tensors
  /// and restores take three chunks on any rank.
  std::int64_t memory_bytes = std::int64_t{64} << 20;
  /// An io rank writes its own shards and those of all ranks that it serves one after the other
  /// into one data file, so that a checkpoint has as many as there are io ranks. Policies still see
  /// each task; only the default policy's shards are joined, since others choose files on purpose.
  /// Choice::automatic does so in any case.
  bool joined = false;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [choice, ranks, memory_bytes, joined] = self;
    options.validated("choice", choice);
    options.validated("ranks", ranks);
    options.validated("memory_bytes", memory_bytes);
    options.validated("joined", joined);
  }
};

/// Whether data files are written, or read, past the operating system's page cache.
enum class DirectIo {
  /// Where the file system takes it (asked once a device, O_DIRECT) and much is written in a row.
  /// Memory that begins on a page goes to the disk as it lies; other memory through up to 16 MiB of
  /// buffers.
  automatic,
  on,  ///< each whole page, where the file system takes it
  off
};
constexpr std::array<const char*, 3> words(DirectIo) { return {"automatic", "on", "off"}; }

/// The group `write`: who puts bytes into data files, and how. Restores follow io_ranks,
/// chunk_bytes, storage_limit_seconds and file_system too.
struct WriteOptions {
  /// Of data files; what it cannot serve is unsupported or invalid_argument when a manager is made.
  Writer writer = Writer::posix;
  MpiIoOptions mpi_io = {};  ///< not with io ranks: the MPI library has aggregators of its own
  /// Who touches data files. Automatic ones leave them to writers that have no io ranks.
  IoRanks io_ranks = IoRanks::automatic();
  DirectIo direct_io = DirectIo::automatic;  ///< how Writer::posix writes data files
  /// On Lustre, over how many storage targets a new data file is striped, 1 to 2,000; not of saves
  /// without renames. 0: four for each rank that writes, but at most 64, dealt over the data files
  /// and at least one for each; yet where somebody has chosen a layout for the directory
  /// (`lfs setstripe`), that one. -1: as the directory says.
  int stripes = 0;
  /// The data files of a checkpoint that retention removes, or that is replaced, are kept for the
  /// next save to overwrite, which is faster than writing new ones; at most one save's, and none
  /// when the manager ends. Bundles of Writer::posix, with renames. A file that has another hard
  /// link is left to that. Whoever still reads such a checkpoint may find changed bytes, which its
  /// checksums tell: pin what others copy.
  bool recycle = true;
  /// Blocking saves leave part records too, as asynchronous ones do, and the last one before a
  /// stop, and those without renames: then a restart completes a save whose job died when all its
  /// bytes were durable, but before its commit. Else such a restart finds the checkpoint before, as
  /// it does when the job dies while it writes. Costs each writing rank a file and two fsyncs a
  /// save.
  bool part_records = false;
  /// False: rely on no rename, for file systems that have none or where it is no single step. Also
  /// where the directory holds .cairn/no-atomic-rename, which such a manager leaves there. While a
  /// step is overwritten then, and after a crash in that, read-only managers list it as missing or
  /// damaged until the owner is there again; restore(step) and open(step) find what was there
  /// before.
  bool atomic_rename = true;
  std::int64_t chunk_bytes = std::int64_t{16} << 20;  ///< unit of reading and exchange, ≤ 64 MiB
  /// For storage that may stop answering; 0: no limit. A save that has waited for its files for so
  /// long on some rank fails on all of them (Code::io), as do single file operations of other calls
  /// (but not the reading of tensors); older checkpoints stay whole, and the process can end. What
  /// has not come back goes on without us, and touches no memory of the application. Until it has,
  /// each further operation fails at once; then the manager works again. It costs a second copy of
  /// what is written. Writer::posix only.
  double storage_limit_seconds = 0;
  double owner_wait_seconds = 10;  ///< how long a directory's dying previous owner is waited for
  std::shared_ptr<io::FileSystem> file_system = nullptr;  ///< none: POSIX

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [writer, mpi_io, io_ranks, direct_io, stripes, recycle, part_records, atomic_rename,
           chunk_bytes, storage_limit_seconds, owner_wait_seconds, file_system] = self;
    options.validated("writer", writer);
    options.group("mpi_io", mpi_io);
    options.group("io_ranks", io_ranks);
    options.agreed("direct_io", direct_io);
    options.agreed("stripes", stripes);
    options.agreed("recycle", recycle);
    options.agreed("part_records", part_records);
    options.agreed("atomic_rename", atomic_rename);
    options.agreed("chunk_bytes", chunk_bytes);
    options.own("storage_limit_seconds", storage_limit_seconds);
    options.own("owner_wait_seconds", owner_wait_seconds);
    options.own("file_system", file_system);
  }
};

}  // namespace cairn
