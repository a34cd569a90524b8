#include "cairn/mpi.hpp"
#include "support/group_kit.hpp"

namespace cairn::test {

std::vector<GroupCase> group_cases() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return {{"mpi", ranks, [](const RankBody& body) { body(mpi(MPI_COMM_WORLD)); }}};
}

}  // namespace cairn::test
