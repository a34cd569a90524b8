/* Each rank's number, saved as one tensor.  usage: many DIRECTORY */
#include <cairn_mpi.h>
#include <stdio.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, cairn_last_error()->text);
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}

int main(int argc, char** argv) {
  int rank, ranks;
  int64_t number, shape, start, one = 1;
  cairn_group* group;
  cairn_manager* manager;
  cairn_state* state;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 2) return fail("usage: many DIRECTORY");
  number = start = rank;
  shape = ranks;
  if (cairn_group_mpi(MPI_COMM_WORLD, &group)) return fail("group");
  if (cairn_manager_create(group, argv[1], NULL, &manager)) return fail("manager");
  if (cairn_state_create(&state)) return fail("state");
  if (cairn_state_add_slice(state, "n", CAIRN_INT64, 1, &number, &shape, &start, &one, NULL)) {
    return fail("n");
  }
  if (cairn_manager_save(manager, 1, state, NULL, NULL)) return fail("save");
  number = -1;
  if (cairn_manager_restore(manager, 1, state, NULL, NULL)) return fail("restore");
  if (number != rank) return fail("another number");
  cairn_state_free(state);
  cairn_manager_free(manager);
  cairn_group_free(group);
  MPI_Finalize();
  if (rank == 0) puts("many works");
  return 0;
}
