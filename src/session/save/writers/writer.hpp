#pragma once
/// A writer of data files: how the bytes of ranks get into files. Each writer has a source in
/// save/writers/ and a line in the table there.
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "group/collectives.hpp"
#include "model/refreshed_state.hpp"
#include "session/job/job.hpp"
#include "session/save/dense.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// A data file of dense tensors, as one rank sees it.
struct RunsTarget {
  int file = 0;  ///< index among the files of dense tensors
  io::Path path;
  std::int64_t bytes = 0;
  const MadeFile& made;
  const Draft& draft;
  bool makes_it = false;  ///< this rank must make the file; false if the format has made it
  bool has_runs = false;  ///< whether this rank writes to it
};

/// The runs that a rank has complete in memory in one round, by chunk of the plan's exchange. If a
/// run lies contiguous in the application's memory, `bytes` points there and its buffer is unused.
/// The buffers of a round's runs are adjacent.
struct RunsInHand {
  struct Run {
    std::byte* buffer;
    const std::byte* bytes;
  };
  const DensePlan::Round* round = nullptr;
  NotFiniteKeys* not_finite = nullptr;  ///< see Draft
  std::map<int, Run> runs;
};

/// An open data file of dense tensors. If ranks write together, all members are collective among
/// them. Errors are kept in the DeferredError, since a rank that threw would leave others waiting.
class RunsFile {
 public:
  virtual ~RunsFile() = default;
  /// Checksums the runs of this rank, writes them, and adds them to the entries.
  virtual void write(RunsInHand&, std::vector<StoredTensor>& entries, DeferredError&) = 0;
  /// Makes the file durable, then closes it.
  virtual void close(DeferredError&) = 0;
};

/// Writers have no state: all members are const.
class DataWriter {
 public:
  virtual ~DataWriter() = default;
  /// Whether this is the writer for these options, and for the io ranks that ranks have agreed on.
  virtual bool serves(const Job&) const = 0;

  // -- at the opening ----------------------------------------------------------------------------
  /// What ranks must agree on: the writer's name and all its settings.
  virtual std::string description(const ManagerOptions&) const = 0;
  /// The name that programs use.
  virtual std::string name() const = 0;
  /// Collective. Throws invalid_argument or unsupported if format, options or group do not allow
  /// this writer. Not called for a job that only reads.
  virtual void validate(Job&) const {}

  // -- of a save ---------------------------------------------------------------------------------
  /// Why an asynchronous save blocks with this writer. "" if its files can be written in the
  /// background: then Writing::write_copy writes this rank's copy to its own files.
  virtual std::string why_blocking() const = 0;
  /// Whether an MPI library writes, for several ranks at once. If so, ranks agree after each file,
  /// and space is reserved before, since the library may not report a full disk. The library
  /// decides which ranks touch a file, and how long it waits for storage. All files are new ones.
  virtual bool writes_together() const { return false; }

  /// Whether all shards of a rank are in one file, which may also hold other ranks' shards.
  virtual bool one_file(const Job&, const Sharding&) const { return false; }

  /// From the number of each rank's shards, computes the first data file of this rank, and the
  /// number of all ranks' files. A rank's shards have their own files, unless ranks share files.
  struct Files {
    int first = 0, all = 0;
  };
  virtual Files number(const Job&, const std::vector<int>& shards, bool one_file) const;

  /// Shards become bytes in data files in the temp directory, synced. Returns the entries. A writer
  /// implements one of the two: the collective one, called if any rank has a shard, or the local
  /// one.
  virtual std::vector<StoredTensor> write_with_others(const Job&, const RefreshedState&,
                                                      const LocalShards&, const FileLayout&,
                                                      const Draft&) const {
    return {};
  }
  virtual std::vector<StoredTensor> write_alone(const Job&, const RefreshedState&,
                                                const LocalShards&, const FileLayout&,
                                                const Draft&) const {
    return {};
  }

  /// Local, called before any rank opens the file. Makes the file of dense tensors if this rank
  /// must, and if the writer makes it this early.
  virtual void make_runs(const Job&, const DensePlan&, const RunsTarget&, int /*first_file*/,
                         const Draft&) const {}
  /// Collective if ranks write together. Never returns null.
  virtual std::unique_ptr<RunsFile> open_runs(const Job&, const DensePlan&, const RunsTarget&,
                                              int first_file, DeferredError&) const = 0;
  /// Collective if ranks write together; called when all have closed the file. Throws if this
  /// rank's runs are not in the file as they should be. Restores what the format has written there.
  virtual void check_runs(const Job&, const RunsTarget&, const std::vector<StoredTensor>&) const {}
};

/// The writer that serves the job.
const DataWriter& writer_of(const Job&);

}  // namespace cairn
