// Fails on one rank, so that a test can see that the main of MPI tests reports it and fails
// everywhere.
#include <gtest/gtest.h>
#include <mpi.h>

TEST(FailingRank, OnPurpose) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  EXPECT_NE(rank, 1) << "failed on purpose";
}
