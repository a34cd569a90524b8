// A job whose rank 0 is in a call of the library while the others wait in a barrier of the
// application's: the watch ends it. usage: own_barrier save|group|barrier DIRECTORY
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
  const std::string call = argv[1];
  cairn::CheckpointManager manager(group, argv[2]);
  double value = 1;
  cairn::State state;
  state.add("value", value);
  // Waiting ranks call each other's roll before the limit, even where processors are scarce; in the
  // other calls it does not matter for which ranks they wait.
  cairn::set_wait_limits({.log_seconds = 0, .end_seconds = call == "save" ? 2.0 : 0.2});
  if (group->rank() == 0) {
    if (call == "save") manager.save(1, state);
    if (call == "group") cairn::mpi(MPI_COMM_WORLD);
    if (call == "barrier") group->barrier();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
