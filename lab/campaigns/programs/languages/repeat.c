/* A job in C for scripts/campaign languages: it restores and saves, and repeats what fails.
 *
 *   repeat_c DIRECTORY LAST blocking|async|hdf5
 *
 * It saves each tenth step up to LAST. Lines: "restored step N", "saved step N", "done"; of each
 * rank "failed RANK [CODE] TEXT", "wrong RANK TEXT", and "over RANK" before MPI_Finalize. */
#include <cairn_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NX = 60, NY = 48, MOST_TURNS = 5 };

static int rank, ranks;

/* Whether to call again. A commit that is said to be there is not made again. */
static int failed(int code, int* turn) {
  if (code == CAIRN_OK) return 0;
  printf("failed %d [%d] %s\n", rank, code, cairn_last_error()->text), fflush(stdout);
  if (code == CAIRN_ALREADY_EXISTS && *turn > 0) return 0;
  if (++*turn == MOST_TURNS) MPI_Abort(MPI_COMM_WORLD, 3);
  return 1;
}

static double value(int64_t step, int y, int x) { return (double)(step * 10000 + y * NX + x); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int is_async = strcmp(argv[3], "async") == 0;
  const int first = rank * NY / ranks, rows = (rank + 1) * NY / ranks - first;
  const int64_t last = atol(argv[2]), shape[] = {NY, NX}, start[] = {first, 0},
                extent[] = {rows, NX};
  double* u = calloc((size_t)rows * NX, sizeof(*u));
  int64_t step = 0, restored = -1;
  int i, turn;
  cairn_group* group;
  cairn_options* options;
  cairn_manager* manager;
  cairn_state* state;
  turn = 0;
  while (failed(cairn_group_mpi(MPI_COMM_WORLD, &group), &turn)) continue;
  while (failed(cairn_options_create(&options), &turn)) continue;
  while (failed(cairn_options_set(options, "keep.last", "2"), &turn)) continue;
  if (strcmp(argv[3], "hdf5") == 0) {
    while (failed(cairn_options_set(options, "store.format", "hdf5"), &turn)) continue;
  }
  while (failed(cairn_manager_create(group, argv[1], options, &manager), &turn)) continue;
  while (failed(cairn_state_create(&state), &turn)) continue;
  while (failed(cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL), &turn))
    continue;
  while (failed(cairn_state_add_slice(state, "u", CAIRN_FLOAT64, 2, u, shape, start, extent, NULL),
                &turn))
    continue;

  turn = 0;
  while (failed(cairn_manager_restore_latest(manager, state, NULL, &restored, NULL), &turn))
    continue;
  if (restored >= 0) {
    if (rank == 0) printf("restored step %ld\n", (long)restored), fflush(stdout);
    if (step != restored) printf("wrong %d step\n", rank), fflush(stdout);
    for (i = 0; i < rows * NX; ++i) {
      if (u[i] != value(restored, first + i / NX, i % NX))
        printf("wrong %d value %d\n", rank, i), fflush(stdout);
    }
  }
  while (step < last) {
    step += 10 - step % 10;
    turn = 0;
    for (;;) {
      for (i = 0; i < rows * NX; ++i) u[i] = value(step, first + i / NX, i % NX);
      int code = is_async ? cairn_manager_save_async(manager, step, state, NULL, NULL)
                          : cairn_manager_save(manager, step, state, NULL, NULL);
      if (is_async) {
        memset(u, 0, (size_t)rows * NX * sizeof(*u)); /* a copy is made */
        if (code == CAIRN_OK) code = cairn_manager_wait(manager);
      }
      if (!failed(code, &turn)) break;
    }
    if (rank == 0) printf("saved step %ld\n", (long)step), fflush(stdout);
  }
  cairn_state_free(state);
  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_group_free(group);
  free(u);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("done\n");
  printf("over %d\n", rank), fflush(stdout);
  MPI_Finalize();
  return 0;
}
