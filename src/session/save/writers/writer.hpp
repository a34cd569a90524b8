#pragma once
/// A writer of data files: how the bytes that ranks have get there. Each is one source in
/// save/writers/ and one line in the table there.
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
  int file = 0;  ///< among those of dense tensors
  io::Path path;
  std::int64_t bytes = 0;
  const MadeFile& made;
  bool makes_it = false;  ///< whether this rank is to make it: not where the format has
  bool has_runs = false;  ///< whether this rank writes to it
};

/// The runs that a rank has whole in memory in one round, by chunk of the plan's exchange. A run
/// that lies in the application's memory as it is to be written is there, and its buffer, of which
/// the chunks of a round have neighbouring parts, is not used.
struct RunsInHand {
  struct Run {
    std::byte* buffer;
    const std::byte* bytes;
  };
  const DensePlan::Round* round = nullptr;
  NotFiniteKeys* not_finite = nullptr;  ///< see Draft
  std::map<int, Run> runs;
};

/// A data file of dense tensors that is open. Where ranks write together, all members are
/// collective among them. What goes wrong is kept: a rank that threw would leave others waiting.
class RunsFile {
 public:
  virtual ~RunsFile() = default;
  /// Checksums the runs of this rank, writes them, and adds them to the entries.
  virtual void write(RunsInHand&, std::vector<StoredTensor>& entries, DeferredError&) = 0;
  /// Durable, then closed.
  virtual void close(DeferredError&) = 0;
};

/// Has no state: all members are const.
class DataWriter {
 public:
  virtual ~DataWriter() = default;
  /// Whether it is the one for these options, and for the io ranks that were agreed on.
  virtual bool serves(const Job&) const = 0;

  // -- at the opening ----------------------------------------------------------------------------
  /// What ranks are to agree on: its name and all that it is told.
  virtual std::string description(const ManagerOptions&) const = 0;
  /// What a program calls it.
  virtual std::string name() const = 0;
  /// Collective. Throws invalid_argument or unsupported for what format, options and group do not
  /// allow. Not called for a job that only reads.
  virtual void validate(Job&) const {}

  // -- of a save ---------------------------------------------------------------------------------
  /// Why an asynchronous save blocks with it; "" for a writer whose files the background writes: a
  /// copy of what this rank has goes to its own files (Writing::write_copy).
  virtual std::string why_blocking() const = 0;
  /// Whether an MPI library writes, for several ranks at once: then ranks agree after each file,
  /// and space is taken before, since a full disk may not be told. The library chooses by itself
  /// which ranks touch a file, and how long it waits for storage; all files are new ones.
  virtual bool writes_together() const { return false; }

  /// Whether all shards of a rank lie in one file, which is that of other ranks' shards, too.
  virtual bool one_file(const Job&, const Sharding&) const { return false; }

  /// From how many shards each rank has: the first data file of this one, and the number of all
  /// ranks' files. A rank's own shards have files of their own, unless ranks share files.
  struct Files {
    int first = 0, all = 0;
  };
  virtual Files number(const Job&, const std::vector<int>& shards, bool one_file) const;

  /// Shards become bytes in data files, synced, in the temp directory; entries come back. A writer
  /// does it in one of two ways: collectively, called if any rank has a shard, or locally.
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

  /// Local, before any rank opens one. Makes the file of dense tensors if this rank is to, and the
  /// writer makes it so early.
  virtual void make_runs(const Job&, const DensePlan&, const RunsTarget&, int /*first_file*/,
                         const Draft&) const {}
  /// Collective where ranks write together. Never null.
  virtual std::unique_ptr<RunsFile> open_runs(const Job&, const DensePlan&, const RunsTarget&,
                                              int first_file, DeferredError&) const = 0;
  /// Collective where ranks write together, when all have closed the file. Throws what is wrong
  /// with these runs of this rank, and leaves what the format has put there as it was.
  virtual void check_runs(const Job&, const RunsTarget&, const std::vector<StoredTensor>&) const {}
};

/// The one that serves the job.
const DataWriter& writer_of(const Job&);

}  // namespace cairn
