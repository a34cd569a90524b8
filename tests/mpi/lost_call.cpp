// usage: lost_call OPERATION FUNCTION CALL RANK On pretended nodes the n-th call of an MPI function
// fails on one rank only: the job must end. Other ranks would wait for ever, so rank 0 must not run
// to its end.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "cairn/group.hpp"
#include "group/call_group.hpp"
#include "mpi/mpi_fakes.hpp"
#include "mpi/mpi_group.hpp"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  MPI_Init(&argc, &argv);
  const std::string operation = argv[1];
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto group =
      cairn::CallGroup::of(std::make_shared<cairn::MpiGroup>(MPI_COMM_WORLD, 4, rank / 2));
  std::unique_ptr<cairn::test::FailingCall> failing;
  if (rank == std::atoi(argv[4])) {
    failing =
        std::make_unique<cairn::test::FailingCall>(argv[2], MPI_ERR_OTHER, std::atoi(argv[3]));
  }
  try {
    cairn::collective_call(*group, "a test", [&] {
      std::int64_t value = 1;
      std::string text = "a text of several pieces";
      for (int time = 0; time < 3; ++time) {
        if (operation == "all_reduce") group->all_reduce({&value, 1}, cairn::Group::Op::sum);
        if (operation == "broadcast") group->broadcast(text, 3);
        if (operation == "barrier") group->barrier();
      }
      group->barrier();
    });
  } catch (const cairn::test::Aborted& aborted) {
    PMPI_Abort(MPI_COMM_WORLD, aborted.code);
  }
  failing.reset();
  std::printf("rank %d came to its end\n", rank);
  MPI_Finalize();
}
