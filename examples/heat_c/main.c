/* Heat flows over a plate, and each rank has some of its rows. Whatever number of ranks starts it,
 * and however it ended before, it goes on from the newest checkpoint.  usage: heat DIRECTORY STEPS
 */
#include <cairn_mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { NX = 60, NY = 48, WIDTH = NX + 2 }; /* of the plate; of an array with halos */

/* Ends the job with what the library says. */
static void ok(int code) {
  if (code == CAIRN_OK) return;
  fprintf(stderr, "heat: %s\n", cairn_last_error()->text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void exchange_halos(double* u, int rows, int rank, int ranks) {
  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  MPI_Sendrecv(u + WIDTH, WIDTH, MPI_DOUBLE, above, 0, u + (rows + 1) * WIDTH, WIDTH, MPI_DOUBLE,
               below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(u + rows * WIDTH, WIDTH, MPI_DOUBLE, below, 1, u, WIDTH, MPI_DOUBLE, above, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void step_to(double* next, const double* u, int rows) {
  int x, y;
  for (y = 1; y <= rows; ++y) {
    for (x = 1; x <= NX; ++x) {
      const double* at = u + y * WIDTH + x;
      next[y * WIDTH + x] =
          at[0] + 0.1 * (((at[-1] + at[1]) + (at[-WIDTH] + at[WIDTH])) - 4 * at[0]);
    }
  }
}

static void run(const char* directory, int64_t steps) {
  int rank, ranks, first, rows, x, y, save;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  first = rank * NY / ranks;
  rows = (rank + 1) * NY / ranks - first;
  double* u = calloc((size_t)(rows + 2) * WIDTH, sizeof(*u)); /* the edge stays cold */
  double* next = calloc((size_t)(rows + 2) * WIDTH, sizeof(*next));
  if (!u || !next) MPI_Abort(MPI_COMM_WORLD, 1);
  for (y = 0; y < rows; ++y) {
    for (x = 0; x < NX; ++x) u[(y + 1) * WIDTH + x + 1] = (first + y) * 7 % 11 + x * 5 % 13;
  }

  cairn_group* group;
  cairn_options* options;
  cairn_manager* manager;
  ok(cairn_group_mpi(MPI_COMM_WORLD, &group));
  ok(cairn_options_create(&options));
  ok(cairn_options_set(options, "keep.last", "3"));
  ok(cairn_options_set(options, "when.interval.steps", "10"));
  ok(cairn_manager_create(group, directory, options, &manager));

  /* The rows of this rank, without halos: they begin at row 1, column 1 of an array of WIDTH
   * columns. The arrays take turns, so that their place is looked at anew at each save. */
  const int64_t shape[] = {NY, NX}, start[] = {first, 0}, extent[] = {rows, NX},
                strides[] = {WIDTH, 1};
  int64_t step = 0, restored;
  void* owned = u + WIDTH + 1;
  cairn_state* state;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL));
  ok(cairn_state_add_slice_at(state, "u", CAIRN_FLOAT64, 2, &owned, shape, start, extent, strides));

  ok(cairn_manager_restore_latest(manager, state, NULL, &restored, NULL));
  if (rank == 0 && restored >= 0) printf("restored step %ld\n", (long)restored);
  while (step < steps) { /* a restore has set it */
    exchange_halos(u, rows, rank, ranks);
    step_to(next, u, rows);
    double* const turn = u;
    u = next, next = turn;
    owned = u + WIDTH + 1;
    ++step;
    ok(cairn_manager_should_save(manager, step, &save));
    if (!save && step < steps) continue;
    ok(cairn_manager_save(manager, step, state, NULL, NULL));
    if (rank == 0) printf("saved step %ld\n", (long)step), fflush(stdout);
  }
  cairn_state_free(state);
  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_group_free(group);
  free(u);
  free(next);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) {
    fprintf(stderr, "usage: heat DIRECTORY STEPS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  run(argv[1], atol(argv[2]));
  MPI_Finalize();
  return 0;
}
