// In a save through HDF5 only the last rank's transfer fails, which ends the job. lost_rank.sh
// checks what is left.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/mpi.hpp"
#include "mpi/file_fakes.hpp"
#include "mpi/mpi_datasets.hpp"

namespace cairn {
namespace {

TEST(LostRank, EndsTheJob) {
  const auto group = mpi(MPI_COMM_WORLD);
  const char* directory = ::getenv("CAIRN_TEST_DIRECTORY");
  ASSERT_TRUE(directory);
  ManagerOptions options;
  options.store.format = Format::hdf5;
  options.write.writer = Writer::hdf5_collective;
  std::vector<double> row(1000, 1.5);
  State state;
  state.add("u", slice(row.data(), {group->size(), 1000}, {group->rank(), 0}, {1, 1000}));
  CheckpointManager manager(group, directory, options);
  manager.save(1, state);
  dynamic_cast<MpiDatasets&>(*group->dataset_files()).patience_seconds = 0.3;
  if (group->rank() + 1 == group->size()) test::stay_away();
  manager.save(2, state);
}

}  // namespace
}  // namespace cairn
