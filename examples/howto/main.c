/* Ten things that people do with Cairn, as the pages of docs/howto show them.
 * usage: mpirun -np N howto_c DIRECTORY bundle|hdf5     (again and again, with any N) */
#include <cairn_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 12, WIDTH = 4 }; /* of a plate */
static int rank, ranks;
static cairn_group* group; /* cairn_group_mpi(MPI_COMM_WORLD, &group) made it */

/* Ends the job with what the library says. */
static void ok(int code) {
  if (code == CAIRN_OK) return;
  fprintf(stderr, "howto_c: %s\n", cairn_last_error()->text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "howto_c: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int64_t first_row(int of) { return HEIGHT * of / ranks; }

static void save(const char* directory, int64_t step) {
  const int64_t first = first_row(rank), rows = first_row(rank + 1) - first;
  double* u = malloc((size_t)(rows * WIDTH) * sizeof(*u));
  for (int64_t i = 0; i < rows * WIDTH; ++i) u[i] = (double)(first * WIDTH + i);

  const int64_t shape[] = {HEIGHT, WIDTH}, start[] = {first, 0}, extent[] = {rows, WIDTH};
  cairn_state* state;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL));
  ok(cairn_state_add_slice(state, "u", CAIRN_FLOAT64, 2, u, shape, start, extent, NULL));

  cairn_options* options;
  cairn_manager* manager;
  ok(cairn_options_create(&options));
  ok(cairn_options_set(options, "keep.last", "3"));
  ok(cairn_manager_create(group, directory, options, &manager));
  ok(cairn_manager_save(manager, step, state, NULL, NULL)); /* durable on return */

  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_state_free(state);
  free(u);
}

static int64_t restore(const char* directory) {
  const int64_t first = first_row(rank), rows = first_row(rank + 1) - first;
  double* u = malloc((size_t)(rows * WIDTH) * sizeof(*u));

  const int64_t shape[] = {HEIGHT, WIDTH}, start[] = {first, 0}, extent[] = {rows, WIDTH};
  int64_t step = 0, restored;
  cairn_state* state;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL));
  ok(cairn_state_add_slice(state, "u", CAIRN_FLOAT64, 2, u, shape, start, extent, NULL));

  cairn_manager* manager;
  ok(cairn_manager_create(group, directory, NULL, &manager));
  ok(cairn_manager_restore_latest(manager, state, NULL, &restored, NULL));
  if (restored >= 0 && rank == 0) printf("goes on after step %ld\n", (long)restored);

  check(restored < 0 || restored == step, "another step was restored");
  for (int64_t i = 0; restored >= 0 && i < rows * WIDTH; ++i) {
    check(u[i] == (double)(first * WIDTH + i), "another row was restored");
  }
  cairn_manager_free(manager);
  cairn_state_free(state);
  free(u);
  return step;
}

static void asynchronous(const char* directory) {
  static double u[1000];
  const int64_t shape[] = {1000 * (int64_t)ranks}, start[] = {1000 * (int64_t)rank},
                extent[] = {1000};
  cairn_state* state;
  cairn_options* options;
  cairn_manager* manager;
  int yes;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_slice(state, "u", CAIRN_FLOAT64, 1, u, shape, start, extent, NULL));

  ok(cairn_options_create(&options));
  ok(cairn_options_set(options, "when.interval.steps", "5"));
  ok(cairn_manager_create(group, directory, options, &manager));
  for (int64_t step = 1; step <= 20; ++step) {
    for (int i = 0; i < 1000; ++i) u[i] += 1; /* u may be changed while its copy is written */
    ok(cairn_manager_should_save(manager, step, &yes));
    if (yes) ok(cairn_manager_save_async(manager, step, state, NULL, NULL));
  }
  ok(cairn_manager_wait(manager)); /* what is in flight is committed before the job ends */

  size_t count;
  const cairn_step_info* const* steps;
  ok(cairn_manager_steps(manager, &count, &steps));
  check(count > 0 && steps[count - 1]->step == 20, "the last step is not there");
  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_state_free(state);
}

static void halos(const char* directory) {
  const int64_t first = first_row(rank), rows = first_row(rank + 1) - first;

  enum { STRIDE = WIDTH + 2 }; /* one halo cell on each side */
  double* u = calloc((size_t)(rows + 2) * STRIDE, sizeof(*u));
  const int64_t shape[] = {HEIGHT, WIDTH}, start[] = {first, 0}, extent[] = {rows, WIDTH},
                strides[] = {STRIDE, 1};
  cairn_state* state;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_slice(state, "u", CAIRN_FLOAT64, 2, u + STRIDE + 1, shape, start, extent,
                           strides));

  cairn_manager* manager;
  ok(cairn_manager_create(group, directory, NULL, &manager));
  ok(cairn_manager_save(manager, 1, state, NULL, NULL));
  cairn_manager_free(manager);
  cairn_state_free(state);
  free(u);
}

static void particles(const char* directory, int64_t total) {
  const int64_t row_shape[] = {3}; /* a particle has a position of three numbers */
  cairn_vector* position;
  ok(cairn_vector_create(CAIRN_FLOAT64, 1, row_shape, &position));
  if (rank == 0) ok(cairn_vector_resize(position, total));

  const cairn_rows rows = cairn_vector_rows(position); /* memory of your own: see cairn_rows */
  cairn_state* state;
  cairn_manager* manager;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_ragged(state, "position", CAIRN_FLOAT64, 1, row_shape, &rows, NULL, NULL));
  ok(cairn_manager_create(group, directory, NULL, &manager));
  ok(cairn_manager_save(manager, 1, state, NULL, NULL));
  ok(cairn_manager_restore(manager, 1, state, NULL, NULL)); /* dealt evenly: it is resized */

  const int64_t even = total / ranks, here = cairn_vector_count(position);
  check(here == even || here == even + 1, "particles are not dealt evenly");
  cairn_manager_free(manager);
  cairn_state_free(state);
  cairn_vector_free(position);
}

static void look(const char* prefix) {
  cairn_contents* contents; /* of a bundle or HDF5, by Cairn or TensorFlow */
  ok(cairn_open(prefix, &contents));
  for (size_t i = 0; i < cairn_contents_count(contents); ++i) {
    const cairn_tensor* tensor = cairn_contents_at(contents, i);
    printf("%s: %s, %d dimensions\n", tensor->key, cairn_dtype_name(tensor->dtype), tensor->dims);
  }
  double box[3 * WIDTH]; /* rows 2, 3 and 4 */
  const int64_t start[] = {2, 0}, extent[] = {3, WIDTH};
  ok(cairn_contents_read(contents, "u", start, extent, box, sizeof(box)));
  cairn_contents_free(contents);
}

static void convert(const char* directory, const char* format) {
  static double u[HEIGHT * WIDTH];
  const int64_t shape[] = {HEIGHT, WIDTH};
  cairn_state* state;
  cairn_options* options;
  cairn_manager* manager;
  int64_t step;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_whole(state, "u", CAIRN_FLOAT64, 2, u, shape, NULL));

  ok(cairn_options_create(&options));
  ok(cairn_options_set(options, "store.format", format)); /* "hdf5": of what is saved from now on */
  ok(cairn_manager_create(group, directory, options, &manager));
  ok(cairn_manager_restore_latest(manager, state, NULL, &step, NULL)); /* from both formats */
  ok(cairn_manager_save(manager, step + 1, state, NULL, NULL));

  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_state_free(state);
}

static int under_slurm(const char* directory) {
  int64_t step = 0;
  int exit_code = 0, yes;
  cairn_state* state;
  cairn_manager* manager;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL));

  cairn_stop* stop;
  cairn_options* options;
  ok(cairn_stop_create(0, NULL, NULL, &stop)); /* SIGTERM, SIGUSR1, the job's time limit */
  ok(cairn_options_create(&options));
  ok(cairn_options_set(options, "when.interval.steps", "1000"));
  ok(cairn_options_stop(options, stop));
  ok(cairn_manager_create(group, directory, options, &manager));
  ok(cairn_manager_restore_latest(manager, state, NULL, NULL, NULL));
  while (step < 100000 && !exit_code) {
    const cairn_stop_reason* reason;
    ++step;
    if (step == 3) cairn_stop_request(stop); /* here in place of a signal */
    ok(cairn_manager_should_save(manager, step, &yes));
    if (yes) ok(cairn_manager_save(manager, step, state, NULL, NULL)); /* also before a stop */
    ok(cairn_manager_should_stop(manager, &reason));
    if (reason) exit_code = reason->exit_code;
  }

  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_stop_free(stop);
  cairn_state_free(state);
  return exit_code;
}

static void policies(const char* directory) {
  static float a[1000], b[1000];
  const int64_t shape[] = {ranks, 1000}, start[] = {rank, 0}, extent[] = {1, 1000};
  cairn_state* state;
  cairn_options* options;
  cairn_manager* manager;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_slice(state, "a", CAIRN_FLOAT32, 2, a, shape, start, extent, NULL));
  ok(cairn_state_add_slice(state, "b", CAIRN_FLOAT32, 2, b, shape, start, extent, NULL));

  ok(cairn_options_create(&options));
  ok(cairn_options_max_shard_size(options, 3000)); /* bytes a file */
  ok(cairn_manager_create(group, directory, options, &manager));
  ok(cairn_manager_save(manager, 1, state, NULL, NULL));

  cairn_contents* contents;
  ok(cairn_manager_open(manager, 1, &contents));
  check(cairn_contents_info(contents)->files >= 3 * ranks, "files are too large");
  cairn_contents_free(contents);
  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_state_free(state);
}

static void errors(const char* directory) {
  int64_t step = 0;
  cairn_state* state;
  cairn_manager* manager;
  ok(cairn_state_create(&state));
  ok(cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL));
  ok(cairn_manager_create(group, directory, NULL, &manager));

  const int code = cairn_manager_restore(manager, 77, state, NULL, NULL);
  if (code == CAIRN_NOT_FOUND && rank == 0) { /* the same code on all ranks */
    const cairn_error* error = cairn_last_error();
    printf("%s\n%s\n", error->problem, error->way_out);
  }

  check(code == CAIRN_NOT_FOUND, "another error");
  cairn_manager_free(manager);
  cairn_state_free(state);
}

int main(int argc, char** argv) {
  char shared[900], own[900], path[1000];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(argc == 3 && strlen(argv[1]) < 800, "usage: howto_c DIRECTORY bundle|hdf5");
  ok(cairn_group_mpi(MPI_COMM_WORLD, &group));
  snprintf(shared, sizeof(shared), "%s/shared", argv[1]);
  const int64_t step = restore(shared) + 1;
  save(shared, step);
  snprintf(own, sizeof(own), "%s/c-%ld", argv[1], (long)step);
  snprintf(path, sizeof(path), "%s/asynchronous", own), asynchronous(path);
  snprintf(path, sizeof(path), "%s/halos", own), halos(path);
  snprintf(path, sizeof(path), "%s/particles", own), particles(path, 10);
  snprintf(path, sizeof(path), "%s/halos/ckpt-1", own), look(path);
  snprintf(path, sizeof(path), "%s/halos", own), convert(path, argv[2]);
  snprintf(path, sizeof(path), "%s/slurm", own),
      check(under_slurm(path) == 76, "another exit code");
  snprintf(path, sizeof(path), "%s/policies", own), policies(path);
  snprintf(path, sizeof(path), "%s/errors", own), errors(path);
  cairn_group_free(group);
  if (rank == 0) printf("C saved step %ld\n", (long)step);
  MPI_Finalize();
  return 0;
}
