#pragma once
/// HDF5 files that the ranks of a communicator write through libhdf5's MPI-IO driver.
#include <mpi.h>

#include "cairn/shared_files.hpp"
#include "mpi/mpi_files.hpp"

namespace cairn {

class MpiDatasets final : public DatasetFiles {
 public:
  /// The communicator and the files must outlive it.
  MpiDatasets(MPI_Comm communicator, int rank, const MpiFiles& files)
      : communicator_(communicator), rank_(rank), files_(files) {}

  void check(const Hints& hints) const override;
  std::unique_ptr<DatasetFile> open(const PathText& path, const Hints& hints) override;

  /// How many seconds a rank whose collective call failed waits for the others, in files opened
  /// from now on. Tests set less.
  double patience_seconds = 20;

 private:
  [[maybe_unused]] MPI_Comm communicator_;
  [[maybe_unused]] int rank_;
  [[maybe_unused]] const MpiFiles& files_;
};

}  // namespace cairn
