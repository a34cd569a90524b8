#pragma once
/// Ranks write the datasets of an HDF5 file together, through parallel HDF5, in this order:
///  1. rank 0 makes part.h5: structure, strings, and the seal of an unfinished save after the end
///     that HDF5 knows; reserves its space; fsync (formats/hdf5_file.cpp);
///  2. each rank opens part.h5 itself, and all open it through libhdf5;
///  3. rounds of collective transfers; flush; close, which may write more and cuts off the seal;
///  4. each rank: fsync of what it opened in 2; all agree on success; bytes are read back if the
///     options or the MPI library require it;
///  5. rank 0 writes the structure and the unfinished seal again; fsync; all agree on success;
///  6. part records, and everything after them, as with the other writers.
/// A record promises that a recovery can complete the save, and the recovery needs the seal. So
/// no record may come before 5. If a process dies between 3 and 5, there is no record, and the save
/// is removed. libhdf5 does not change the structure, but it is written again all the same, so that
/// it matches its checksums with any version of libhdf5. Only elements go through libhdf5: the file
/// is laid out as for any other writer.
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
