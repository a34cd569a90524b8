/* One contestant of scripts/bench --faces: the same saves in C.
 * usage: save DIRECTORY BYTES    bytes of each rank's part
 * Each rank waits, asleep, for a line of DIRECTORY/go.RANK; at each one the ranks save together,
 * and rank 0 prints the seconds of the slowest. A line "end" ends it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairn_mpi.h"

static void ok(int code) {
  if (code == CAIRN_OK) return;
  fprintf(stderr, "save.c: %s\n", cairn_last_error()->text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  int rank, ranks;
  int64_t i, step = 0;
  char path[4096], line[16];
  double *u, seconds, slowest;
  cairn_group* group;
  cairn_options* options;
  cairn_manager* manager;
  cairn_state* state;
  FILE* go;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3) return 2;
  const int64_t mine = atoll(argv[2]) / 8, shape[] = {mine * ranks}, start[] = {mine * rank},
                extent[] = {mine};
  u = malloc((size_t)mine * 8);
  for (i = 0; i < mine; ++i) u[i] = (double)(start[0] + i);
  ok(cairn_group_mpi(MPI_COMM_WORLD, &group));
  ok(cairn_options_create(&options));
  ok(cairn_options_set(options, "keep.last", "1"));
  ok(cairn_options_set(options, "write.skip_unchanged", "off"));
  snprintf(path, sizeof(path), "%s/run", argv[1]);
  ok(cairn_manager_create(group, path, options, &manager));
  ok(cairn_state_create(&state));
  ok(cairn_state_add_slice(state, "u", CAIRN_FLOAT64, 1, u, shape, start, extent, NULL));
  snprintf(path, sizeof(path), "%s/go.%d", argv[1], rank);
  go = fopen(path, "r");
  if (!go) return 2;
  while (fgets(line, sizeof(line), go) && strcmp(line, "end\n") != 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = MPI_Wtime();
    ok(cairn_manager_save(manager, ++step, state, NULL, NULL));
    seconds = MPI_Wtime() - seconds;
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      printf("%.9f\n", slowest);
      fflush(stdout);
    }
  }
  fclose(go);
  cairn_manager_free(manager);
  cairn_state_free(state);
  cairn_options_free(options);
  cairn_group_free(group);
  free(u);
  MPI_Finalize();
  return 0;
}
