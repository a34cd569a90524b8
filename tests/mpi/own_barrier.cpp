// A job whose rank 0 saves while the others wait in a barrier of the application's: the watch ends
// it. usage: own_barrier DIRECTORY
#include <cstdio>
#include <string>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  cairn::set_fatal_handler([](std::string_view message) {
    std::fprintf(stderr, "handler: %s\n", std::string(message).c_str());
  });
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  cairn::CheckpointManager manager(group, argv[1]);
  double value = 1;
  cairn::State state;
  state.add("value", value);
  // Ranks that wait call each other's roll before the limit, also where processors are scarce.
  cairn::set_wait_limits({.log_seconds = 0, .end_seconds = 2});
  if (group->rank() == 0) manager.save(1, state);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
