#pragma once
/// Ranks write the datasets of an HDF5 file together, through parallel HDF5, in this order:
///  1. rank 0 makes part.h5: structure, strings, the seal of an unfinished save behind what HDF5
///     knows of; takes its space; fsync (formats/hdf5_file.cpp);
///  2. each rank opens part.h5 itself; all open it through libhdf5;
///  3. rounds of collective transfers; flush; close, which may write more, and cuts the seal off;
///  4. each rank: fsync of what it opened in 2; verdict of all; bytes are read back where that is
///     called for;
///  5. rank 0 puts the structure and the unfinished seal back; fsync; verdict of all;
///  6. part records, and everything after them, as with the other writers.
/// A record is the promise that a recovery can complete the save, and for that it needs the seal:
/// so no record may come before 5. A process that dies between 3 and 5 leaves no record, and a save
/// that is removed. The structure is written again, though libhdf5 leaves it alone, so that it is
/// under its checksums whatever a version of libhdf5 does. Only elements go through libhdf5: the
/// file is laid out as for any other writer.
#include "session/save/writers/writer.hpp"

namespace cairn {

class CollectiveDatasets final : public DataWriter {
 public:
  bool serves(const Job&) const override;
  std::string name() const override { return "Writer::hdf5_collective"; }
  std::string description(const ManagerOptions&) const override;
  void validate(Job&) const override;
  std::string why_blocking() const override { return "HDF5 writes all ranks' datasets together"; }
  bool writes_together() const override { return true; }
  std::unique_ptr<RunsFile> open_runs(const Job&, const DensePlan&, const RunsTarget&,
                                      int first_file, DeferredError&) const override;
  void check_runs(const Job&, const RunsTarget&, const std::vector<StoredTensor>&) const override;
};

}  // namespace cairn
