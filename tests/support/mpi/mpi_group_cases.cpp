#include "cairn/mpi.hpp"
#include "mpi/mpi_group.hpp"
#include "support/group_kit.hpp"

namespace cairn::test {

std::vector<GroupCase> group_cases() {
  int ranks = 0, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<GroupCase> cases{
      {"mpi", ranks, [](const RankBody& body) { body(mpi(MPI_COMM_WORLD)); }}};
  // The ranks of this machine, as if they were on several.
  const auto add_nodes = [&](const char* name, int node) {
    cases.push_back(
        {name, ranks, [node](const RankBody& body) {
           body(std::make_shared<MpiGroup>(MPI_COMM_WORLD, MpiGroup::default_piece, node));
         }});
  };
  add_nodes("mpi_nodes_of_two", rank / 2);
  add_nodes("mpi_nodes_in_turn", rank % 2);
  add_nodes("mpi_nodes_uneven", rank == 0 || rank + 1 == ranks ? 9 : rank < 3 ? 7 : 8);
  return cases;
}

}  // namespace cairn::test
