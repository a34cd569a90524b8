#pragma once
/// Who writes bytes into data files, and how: the group `write` of options. The head of
/// cairn/options.hpp explains visit() and words().
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
  posix,   ///< each rank, or its io rank, writes files of its own
  mpi_io,  ///< ranks write shared files together; needs a group with Group::shared_files
  /// All ranks write the datasets of an HDF5 file through libhdf5 (`H5Dwrite`, collective). Only
  /// with Format::hdf5, for groups of MPI ranks and a parallel libhdf5; the file has the same bytes
  /// as with the other writers. Of MpiIoOptions it uses `hints` and `read_back`.
  hdf5_collective
};
constexpr std::array<const char*, 3> words(Writer) {
  return {"posix", "mpi_io", "hdf5_collective"};
}

/// For Writer::mpi_io and hdf5_collective; the same on all ranks. Restored values never depend on
/// it.
struct MpiIoOptions {
  /// The number of data files of a save, besides those of dense tensors: 1 is one file for all
  /// ranks, 0 one per node; there are never more than ranks. Ranks of a node stay together, in rank
  /// order. Each rank's shards are one range of bytes there: a policy still cuts tensors, but does
  /// not choose these files, only those of dense tensors. A manager with a policy warns of that
  /// when it is made.
  int files = 0;
  /// Passed to the MPI library unchanged. Cairn never adds any: some make Open MPI lose bytes.
  std::map<std::string, std::string> hints = {};
  /// Each rank reads what it wrote back through the operating system, after the sync and before the
  /// commit, and compares checksums. If false, this still happens when the MPI library is known to
  /// lose bytes with such hints, parameters or numbers of ranks: Open MPI 4.1.0 to 4.1.6 and 5.0.0
  /// to 5.0.5 with 16 ranks or more.
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
/// Io ranks write and read data files for themselves and for the ranks that they serve. A served
/// rank sends its bytes of a save to its io rank, and receives those of a restore from it. The same
/// on all ranks. Neither the contents of the files nor later restores depend on this choice.
///
/// Rank 0 is always an io rank: it commits, and reads the index. An io rank of its own node serves
/// a rank, if there is one, and io ranks of a node serve about equally many ranks. Registered
/// savers are the application's own input and output: they run on every rank, and a rank that
/// returned bundles links their files and leaves a record of them.
struct IoRanks {
  enum class Choice { everyone, one_a_node, count, automatic };
  friend constexpr std::array<const char*, 4> words(Choice) {
    return {"everyone", "one_a_node", "count", "automatic"};
  }

  static IoRanks everyone() { return {}; }
  static IoRanks one_a_node() { return {.choice = Choice::one_a_node}; }
  /// So many io ranks, over all nodes as evenly as possible; every rank if the job has no more
  /// ranks.
  static IoRanks count(int ranks) { return {.choice = Choice::count, .ranks = ranks}; }

  /// Every rank is an io rank, as long as that makes no more than `most_files` data files. A larger
  /// job has four io ranks per node, or fewer if that were more than `most_files`, and each joins
  /// the shards of the ranks that it serves in one file. This limits shards under the default
  /// policy: other policies, and dense tensors, decide themselves how many files they make.
  static IoRanks automatic(int most_files = 1024) {
    return {.choice = Choice::automatic, .ranks = most_files};
  }

  Choice choice = Choice::everyone;
  int ranks = 0;  ///< Choice::count: io ranks; Choice::automatic: data files; 1 or more
  /// How many bytes of other ranks' shards an io rank holds at a time, in whole chunks of
  /// chunk_bytes and at least one: this limits how many ranks it serves at once. Besides, it takes
  /// up to 512 KiB for each rank that it serves, to gather small tensors. Dense tensors and
  /// restores take three chunks on any rank.
  std::int64_t memory_bytes = std::int64_t{64} << 20;
  /// An io rank writes its own shards and those of all ranks that it serves one after the other
  /// into one data file, so that a checkpoint has as many data files as io ranks. Policies still
  /// see each task; only the default policy's shards are joined, since others choose files on
  /// purpose. Choice::automatic joins them even if this is false.
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
  /// If the file system supports O_DIRECT (asked once per device) and much is written in a row.
  /// Memory that begins on a page is written directly; other memory goes through up to 16 MiB of
  /// buffers.
  automatic,
  on,  ///< each whole page, if the file system supports it
  off
};
constexpr std::array<const char*, 3> words(DirectIo) { return {"automatic", "on", "off"}; }

/// Whether a save that overwrites a data file (WriteOptions::recycle) leaves out the blocks that
/// the file holds already.
enum class SkipUnchanged {
  /// In files of 1 MiB and more, if a sample of blocks shows that it pays.
  automatic,
  on,  ///< in all files: all bytes are hashed
  off
};
constexpr std::array<const char*, 3> words(SkipUnchanged) { return {"automatic", "on", "off"}; }

/// The group `write`: who writes bytes into data files, and how. Restores use io_ranks,
/// chunk_bytes, storage_limit_seconds and file_system too.
struct WriteOptions {
  /// The writer of data files. Options that it cannot serve throw unsupported or invalid_argument
  /// when a manager is made.
  Writer writer = Writer::posix;
  MpiIoOptions mpi_io = {};  ///< not with io ranks: the MPI library has its own aggregators
  /// Which ranks write and read data files. Automatic io ranks are ignored by writers that have
  /// none.
  IoRanks io_ranks = IoRanks::automatic();
  DirectIo direct_io = DirectIo::automatic;  ///< how Writer::posix writes data files
  /// The number of storage targets over which Lustre stripes a new data file, 1 to 2,000; not for
  /// saves without renames. 0: four for each rank that writes, but at most 64, dealt over the data
  /// files and at least one for each; if somebody has set a layout for the directory (`lfs
  /// setstripe`), that layout is used. -1: the directory's layout.
  int stripes = 0;
  /// Keeps the data files of a checkpoint that retention removes, or that is replaced, for the next
  /// save to overwrite, which is faster than to write new files; it keeps those of one save at
  /// most, and none when the manager ends. Only for bundles of Writer::posix, with renames. A file
  /// that has another hard link is not overwritten. A program that still reads such a checkpoint
  /// may find changed bytes, which the checksums show: pin a checkpoint that others copy.
  bool recycle = true;
  /// Writes only what differs from the file that is overwritten, which is `keep.last` + 1 saves
  /// old. A rank recognises blocks of 64 to 256 KiB by their hash (with a secret key, as frozen
  /// tensors) in files that it has written itself and that nobody has touched since; hashes take at
  /// most 16 MiB. Where a file is not overwritten and the file system shares blocks (XFS, btrfs),
  /// it begins as a clone of the newest checkpoint's, and shares its space. A block that is left
  /// out FrozenOptions::read_every times is read from the disk, and written if it is damaged. Dense
  /// tensors are always written.
  SkipUnchanged skip_unchanged = SkipUnchanged::automatic;
  /// All blocking saves leave part records. Asynchronous saves, the last save before a stop and
  /// saves without renames always do. With part records a restart completes a save whose job died
  /// when all its bytes were durable, but before its commit. Without them the restart finds the
  /// checkpoint before, as it does when the job dies while it writes. Costs each writing rank a
  /// file and two fsyncs per save.
  bool part_records = false;
  /// False: saves rely on no rename, for file systems that have none or where it is not atomic. A
  /// directory with .cairn/no-atomic-rename, which such a manager leaves there, has the same
  /// effect. While such a save overwrites a step, and after a crash in that, read-only managers
  /// list the step as missing or damaged until the owner is there again; restore(step) and
  /// open(step) find the older checkpoint.
  bool atomic_rename = true;
  std::int64_t chunk_bytes = std::int64_t{16} << 20;  ///< unit of reading and exchange, ≤ 64 MiB
  /// For storage that may stop answering; 0: no limit. A save that has waited for its files for so
  /// long on some rank fails on all ranks (Code::unavailable), and so do single file operations of
  /// other calls (but not the reading of tensors); older checkpoints stay whole, and the process
  /// can end. A file operation that has not returned goes on in a thread of its own, and touches no
  /// memory of the application. Until it returns, each further operation fails at once; then the
  /// manager works again. It costs a second copy of what is written. Writer::posix only.
  double storage_limit_seconds = 0;
  double owner_wait_seconds = 10;  ///< how long to wait for a directory's previous owner to end
  /// No other job ever saves there: then an object store need not know conditional puts, by which
  /// owners that were stopped are kept out.
  bool sole_writer = false;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  ///< none: POSIX

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [writer, mpi_io, io_ranks, direct_io, stripes, recycle, skip_unchanged, part_records,
           atomic_rename, chunk_bytes, storage_limit_seconds, owner_wait_seconds, sole_writer,
           file_system] = self;
    options.validated("writer", writer);
    options.group("mpi_io", mpi_io);
    options.group("io_ranks", io_ranks);
    options.agreed("direct_io", direct_io);
    options.agreed("stripes", stripes);
    options.agreed("recycle", recycle);
    options.agreed("skip_unchanged", skip_unchanged);
    options.agreed("part_records", part_records);
    options.agreed("atomic_rename", atomic_rename);
    options.agreed("chunk_bytes", chunk_bytes);
    options.own("storage_limit_seconds", storage_limit_seconds);
    options.own("owner_wait_seconds", owner_wait_seconds);
    options.own("sole_writer", sole_writer);
    options.own("file_system", file_system);
  }
};

}  // namespace cairn
