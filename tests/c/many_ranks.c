/* The C interface on MPI ranks, and on ranks of a table of callbacks: each restores what the
 * other saved, on another number of ranks. */
#include "cairn_mpi.h"
#include "checks.h"

enum { ROWS = 11, COLUMNS = 3 };

typedef struct {
  MPI_Comm world;
  int released;
} context;

static int exchange(void* given, size_t sends, const cairn_send* send, size_t receives,
                    const cairn_receive* receive) {
  const context* to = given;
  MPI_Request* requests = malloc((sends + receives) * sizeof(*requests));
  size_t i;
  int failed = requests == NULL;
  for (i = 0; i < receives && !failed; ++i) {
    failed = MPI_Irecv(receive[i].bytes, (int)receive[i].size, MPI_BYTE, receive[i].from, 1,
                       to->world, &requests[i]);
  }
  for (i = 0; i < sends && !failed; ++i) {
    failed = MPI_Isend(send[i].bytes, (int)send[i].size, MPI_BYTE, send[i].to, 1, to->world,
                       &requests[receives + i]);
  }
  /* MPI_Wait one by one: GCC warns of MPI_STATUSES_IGNORE with MPICH's header, since it is no
   * array. */
  for (i = 0; i < sends + receives && !failed; ++i) {
    failed = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  }
  free(requests);
  return failed;
}
static int send(void* given, int to, const void* bytes, size_t size) {
  return MPI_Send(bytes, (int)size, MPI_BYTE, to, 2, ((const context*)given)->world);
}
static int receive(void* given, int from, void* bytes, size_t size) {
  return MPI_Recv(bytes, (int)size, MPI_BYTE, from, 2, ((const context*)given)->world,
                  MPI_STATUS_IGNORE);
}
static int barrier(void* given) { return MPI_Barrier(((const context*)given)->world); }
static int broadcast(void* given, void* bytes, size_t size, int root) {
  return MPI_Bcast(bytes, (int)size, MPI_BYTE, root, ((const context*)given)->world);
}
static int all_reduce(void* given, int64_t* values, size_t count, int op) {
  const MPI_Op ops[] = {MPI_MIN, MPI_MAX, MPI_SUM};
  return MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_INT64_T, ops[op],
                       ((const context*)given)->world);
}
static void end_job(void* given, const char* message) {
  fprintf(stderr, "%s\n", message);
  MPI_Abort(((const context*)given)->world, 1);
}

/* Rows that cannot grow on one rank are an error on all, with the text of the callback. */
static int64_t no_rows(void* given) {
  (void)given;
  return 0;
}
static void* no_data(void* given) {
  (void)given;
  return NULL;
}
static int cannot_grow(void* given, int64_t rows) {
  (void)rows;
  if (*(const int*)given != 1) return CAIRN_OK;
  cairn_set_error(CAIRN_NO_SPACE, "the pool of particles is full", "", "Make it larger.");
  return 1;
}
static void rows_that_cannot_grow(cairn_manager* manager, int rank, int ranks) {
  const int64_t row[] = {2};
  const cairn_rows rows = {&rank, no_rows, cannot_grow, no_data, NULL};
  cairn_state* state;
  int code;
  if (ranks == 1) return;
  OK(cairn_state_create(&state));
  OK(cairn_state_add_ragged(state, "rows", CAIRN_INT32, 1, row, &rows, NULL, NULL));
  code = cairn_manager_restore(manager, 2, state, NULL, NULL);
  CHECK(code == CAIRN_NO_SPACE);
  CHECK(strcmp(cairn_last_error()->problem, "the pool of particles is full") == 0);
  CHECK(strcmp(cairn_last_error()->way_out, "Make it larger.") == 0);
  CHECK(cairn_last_error()->rank == 1);
  cairn_state_free(state);
}

static void release(void* given) { ((context*)given)->released = 1; }

/* The group of a communicator, by MPI or by the callbacks above. */
static cairn_group* group_of(MPI_Comm ranks, int by_callbacks, context* mine) {
  cairn_group* group;
  cairn_group_calls calls;
  mine->world = ranks;
  mine->released = 0;
  if (!by_callbacks) {
    OK(cairn_group_mpi(ranks, &group));
    return group;
  }
  memset(&calls, 0, sizeof(calls));
  calls.struct_size = sizeof(calls);
  MPI_Comm_rank(ranks, &calls.rank);
  MPI_Comm_size(ranks, &calls.size);
  calls.context = mine;
  calls.exchange = exchange;
  calls.send = send;
  calls.receive = receive;
  calls.barrier = barrier;
  calls.broadcast = broadcast;
  calls.all_reduce = all_reduce;
  calls.abort = end_job;
  calls.release = release;
  OK(cairn_group_from_calls(&calls, &group));
  return group;
}

typedef struct {
  double u[ROWS][COLUMNS + 1]; /* the last column is a halo */
  int64_t first, count, ids[ROWS], by_id[ROWS];
  cairn_vector* rows;
  cairn_ids* id_list;
  cairn_state* state;
} part;

/* Rank r of n has the rows from r*ROWS/n on; ids are dealt round-robin. */
static void make(part* p, int rank, int ranks) {
  const int64_t shape[] = {ROWS, COLUMNS}, strides[] = {COLUMNS + 1, 1}, row[] = {2};
  int64_t start[] = {0, 0}, extent[] = {0, COLUMNS}, n = 0, i;
  cairn_rows rows;
  memset(p, 0, sizeof(*p));
  p->first = (int64_t)rank * ROWS / ranks;
  p->count = ((int64_t)rank + 1) * ROWS / ranks - p->first;
  for (i = rank; i < ROWS; i += ranks) p->ids[n++] = ROWS - 1 - i;
  start[0] = p->first;
  extent[0] = p->count;
  OK(cairn_state_create(&p->state));
  OK(cairn_state_add_slice(p->state, "u", CAIRN_FLOAT64, 2, p->u, shape, start, extent, strides));
  OK(cairn_vector_create(CAIRN_INT32, 1, row, &p->rows));
  rows = cairn_vector_rows(p->rows);
  OK(cairn_state_add_ragged(p->state, "rows", CAIRN_INT32, 1, row, &rows, NULL, NULL));
  OK(cairn_ids_create(CAIRN_INT64, p->ids, n, 0, -1, NULL, &p->id_list));
  OK(cairn_state_add_indexed(p->state, "by_id", p->id_list, CAIRN_INT64, 1, p->by_id, &n, NULL));
}
static void end(part* p) {
  cairn_state_free(p->state);
  cairn_vector_free(p->rows);
  cairn_ids_free(p->id_list);
}

static void save(MPI_Comm ranks, int by_callbacks, const char* directory, const char* format) {
  context mine;
  cairn_group* group = group_of(ranks, by_callbacks, &mine);
  cairn_options* options;
  cairn_manager* manager;
  cairn_save_options* until;
  cairn_save* saving;
  const int rank = cairn_group_rank(group);
  part p;
  int64_t i, x;
  int code;
  char problem[] = "rank 1 does not like it";
  make(&p, rank, cairn_group_size(group));
  for (i = 0; i < p.count; ++i) {
    for (x = 0; x < COLUMNS; ++x) p.u[i][x] = (double)((p.first + i) * COLUMNS + x);
    p.u[i][COLUMNS] = -1;
  }
  for (i = 0; i < ROWS; ++i) p.by_id[i] = 1000 + p.ids[i];
  OK(cairn_vector_resize(p.rows, rank)); /* so many rows of its own number */
  for (i = 0; i < 2 * rank; ++i) ((int32_t*)cairn_vector_data(p.rows))[i] = rank;
  OK(cairn_options_create(&options));
  OK(cairn_options_set(options, "store.format", format));
  OK(cairn_manager_create(group, directory, options, &manager));
  /* A mistake on one rank fails on all of them, with the same words. */
  if (cairn_group_size(group) > 1) {
    code = cairn_manager_save(manager, 1, rank == 1 ? NULL : p.state, NULL, NULL);
    CHECK(code == CAIRN_INVALID_ARGUMENT && strstr(cairn_last_error()->text, "is NULL"));
    CHECK(cairn_last_error()->rank == 1);
    code = cairn_agree(group, rank == 1 ? CAIRN_UNSUPPORTED : CAIRN_OK, problem);
    CHECK(code == CAIRN_UNSUPPORTED && strcmp(cairn_last_error()->problem, problem) == 0);
    FAILS(cairn_manager_create(group, rank == 1 ? NULL : directory, options, &manager),
          CAIRN_INVALID_ARGUMENT, "the directory is NULL");
  }
  OK(cairn_agree(group, CAIRN_OK, NULL));
  OK(cairn_manager_save(manager, 1, p.state, NULL, NULL));
  OK(cairn_save_options_create(&until));
  FAILS(cairn_save_options_set(until, "until", "release"), CAIRN_INVALID_ARGUMENT, "released");
  OK(cairn_save_options_set(until, "until", "released"));
  FAILS(cairn_save_release(NULL), CAIRN_INVALID_ARGUMENT, "the save is NULL");
  OK(cairn_manager_save_async(manager, 2, p.state, until, &saving));
  OK(cairn_save_release(saving));
  for (i = 0; i < p.count; ++i) { /* is not saved */
    for (x = 0; x < COLUMNS; ++x) p.u[i][x] = -1;
  }
  OK(cairn_manager_wait(manager));
  cairn_save_free(saving);
  cairn_save_options_free(until);
  rows_that_cannot_grow(manager, rank, cairn_group_size(group));
  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_group_free(group);
  CHECK(mine.released == by_callbacks);
  end(&p);
}

static void restore(MPI_Comm ranks, int by_callbacks, const char* directory, int saved_by) {
  context mine;
  cairn_group* group = group_of(ranks, by_callbacks, &mine);
  cairn_manager* manager;
  part p;
  int64_t i, x, step, total = 0;
  make(&p, cairn_group_rank(group), cairn_group_size(group));
  for (i = 0; i < ROWS; ++i) p.u[i][COLUMNS] = -2;
  OK(cairn_manager_create(group, directory, NULL, &manager));
  OK(cairn_manager_restore_latest(manager, p.state, NULL, &step, NULL));
  CHECK(step == 2);
  for (i = 0; i < p.count; ++i) {
    for (x = 0; x < COLUMNS; ++x) {
      const double right = (double)((p.first + i) * COLUMNS + x);
      CHECK(memcmp(&p.u[i][x], &right, sizeof(right)) == 0);
    }
    CHECK(p.u[i][COLUMNS] < -1.5);
  }
  for (i = 0; i < ROWS && p.by_id[i] != 0; ++i) CHECK(p.by_id[i] == 1000 + p.ids[i]);
  CHECK(i >= ROWS / cairn_group_size(group));
  total = cairn_vector_count(p.rows);
  MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT64_T, MPI_SUM, ranks);
  if (!by_callbacks) { /* the group has a communicator of its own */
    MPI_Comm_free(&ranks);
    OK(cairn_manager_restore(manager, 1, p.state, NULL, NULL));
  }
  CHECK(total == (int64_t)saved_by * (saved_by - 1) / 2);
  cairn_manager_free(manager);
  cairn_group_free(group);
  end(&p);
}

/* A mistake on one rank is one error on all of them, and nothing is saved. */
static void bad_input(MPI_Comm ranks, const char* directory) {
  struct {
    int64_t first_of_last; /* in place of the last rank's id */
    const char* words;
  } wrong[] = {{-1, "-1 on rank"},
               {INT64_MIN, "-9223372036854775808 on rank"},
               {0, "0 is on rank 0 and on rank"},
               {INT64_MAX, "9223372036854775807 on rank"}};
  int rank, size, i;
  int64_t id, one = 1;
  size_t count = 0;
  double value = 1;
  cairn_group* group;
  cairn_ids* ids;
  cairn_manager* manager;
  cairn_state* state;
  const cairn_step_info* const* steps;
  MPI_Comm_rank(ranks, &rank);
  MPI_Comm_size(ranks, &size);
  if (size == 1) return;
  OK(cairn_group_mpi(ranks, &group));
  OK(cairn_manager_create(group, directory, NULL, &manager));
  for (i = 0; i < 4; ++i) {
    id = rank == size - 1 ? wrong[i].first_of_last : rank;
    OK(cairn_state_create(&state));
    OK(cairn_ids_create(CAIRN_INT64, &id, 1, 0, -1, NULL, &ids));
    OK(cairn_state_add_indexed(state, "x", ids, CAIRN_FLOAT64, 1, &value, &one, NULL));
    CHECK(cairn_manager_save(manager, 1, state, NULL, NULL) == CAIRN_INVALID_ARGUMENT);
    CHECK(strstr(cairn_last_error()->text, wrong[i].words) != NULL);
    cairn_ids_free(ids);
    cairn_state_free(state);
  }
  OK(cairn_state_create(&state));
  OK(cairn_state_add_slice(state, "x", CAIRN_FLOAT64, 0, &value, NULL, NULL, NULL, NULL));
  FAILS(cairn_state_attribute(state, "x", "range", "[0, 1"), CAIRN_INVALID_ARGUMENT, "not JSON");
  cairn_state_free(state);
  OK(cairn_manager_steps(manager, &count, &steps));
  CHECK(count == 0);
  cairn_manager_free(manager);
  cairn_group_free(group);
}

static int no_way(void* context, const cairn_application* from, cairn_migration* how) {
  (void)from, (void)how;
  return *(int*)context ? 7 : CAIRN_OK;
}
/* The callback of the last rank fails: so the restore fails on all ranks. */
static void bad_migration(MPI_Comm ranks, const char* directory) {
  int rank, size, i, fails;
  double value = 1;
  cairn_group* group;
  cairn_options* options;
  cairn_state* state;
  MPI_Comm_rank(ranks, &rank);
  MPI_Comm_size(ranks, &size);
  fails = rank == size - 1;
  OK(cairn_group_mpi(ranks, &group));
  OK(cairn_state_create(&state));
  OK(cairn_state_add_whole(state, "x", CAIRN_FLOAT64, 0, &value, NULL, NULL));
  OK(cairn_options_create(&options));
  OK(cairn_options_migrate(options, no_way, &fails));
  for (i = 1; i <= 2; ++i) {
    cairn_manager* manager;
    OK(cairn_options_set(options, "store.application.version", i == 1 ? "1" : "2"));
    OK(cairn_manager_create(group, directory, options, &manager));
    if (i == 1) {
      OK(cairn_manager_save(manager, 1, state, NULL, NULL));
    } else {
      FAILS(cairn_manager_restore(manager, 1, state, NULL, NULL), CAIRN_APPLICATION,
            "the callback 'migrate' of the program failed (it returned 7)");
      CHECK(cairn_last_error()->rank == size - 1);
    }
    cairn_manager_free(manager);
  }
  cairn_options_free(options);
  cairn_state_free(state);
  cairn_group_free(group);
}

/* MPI_Finalize is called while a manager exists: its calls fail, and it can be freed. */
static void after_the_end(const char* directory) {
  cairn_group* group;
  cairn_manager* manager;
  cairn_state* state;
  double value = 1;
  MPI_Comm freed;
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  MPI_Comm_free(&freed);
  FAILS(cairn_group_mpi(freed, &group), CAIRN_INVALID_ARGUMENT, "MPI_COMM_NULL");
  OK(cairn_group_mpi(MPI_COMM_WORLD, &group));
  OK(cairn_manager_create(group, directory, NULL, &manager));
  cairn_group_free(group);
  OK(cairn_state_create(&state));
  OK(cairn_state_add_slice(state, "x", CAIRN_FLOAT64, 0, &value, NULL, NULL, NULL, NULL));
  OK(cairn_manager_save(manager, 1, state, NULL, NULL));
  MPI_Finalize();
  FAILS(cairn_manager_save(manager, 2, state, NULL, NULL), CAIRN_INVALID_ARGUMENT, "finalised");
  FAILS(cairn_manager_restore(manager, 1, state, NULL, NULL), CAIRN_INVALID_ARGUMENT, "finalised");
  FAILS(cairn_group_mpi(MPI_COMM_WORLD, &group), CAIRN_INVALID_ARGUMENT, "finalised");
  cairn_state_free(state);
  cairn_manager_free(manager);
}

int main(int argc, char** argv) {
  int rank, ranks, story;
  cairn_group* group;
  const char* formats[] = {"bundle", "hdf5"};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(argc == 3);
  FAILS(cairn_group_mpi(MPI_COMM_NULL, &group), CAIRN_INVALID_ARGUMENT, "MPI_COMM_NULL");
  for (story = 0; story < 4; ++story) { /* bit 0: who saves; bit 1: which format */
    char directory[4096];
    MPI_Comm first;
    if (story >= 2 && strcmp(argv[2], "hdf5") != 0) break;
    snprintf(directory, sizeof(directory), "%s/%d-of-%d", argv[1], story, ranks);
    save(MPI_COMM_WORLD, story & 1, directory, formats[story >> 1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank < (ranks + 1) / 2 ? 0 : MPI_UNDEFINED, rank, &first);
    if (first != MPI_COMM_NULL) {
      restore(first, 1 - (story & 1), directory, ranks);
      if (!(story & 1)) MPI_Comm_free(&first);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  {
    char directory[4096];
    snprintf(directory, sizeof(directory), "%s/bad-of-%d", argv[1], ranks);
    bad_input(MPI_COMM_WORLD, directory);
    snprintf(directory, sizeof(directory), "%s/versions-of-%d", argv[1], ranks);
    bad_migration(MPI_COMM_WORLD, directory);
    snprintf(directory, sizeof(directory), "%s/late-of-%d", argv[1], ranks);
    after_the_end(directory);
  }
  if (rank == 0) puts("the C face works on many ranks");
  return 0;
}
