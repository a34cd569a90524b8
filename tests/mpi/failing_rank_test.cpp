// Fails on one rank, to see that the main of MPI tests says so and fails everywhere.
#include <gtest/gtest.h>
#include <mpi.h>

TEST(FailingRank, OnPurpose) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  EXPECT_NE(rank, 1) << "failed on purpose";
}
