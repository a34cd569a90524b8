/* The C interface in one process: every kind of state, options, errors, and contents of
 * checkpoints. */
#include <math.h>

#include "checks.h"

enum { NX = 5, NY = 4, HALO = 1, ACROSS = NX + 2 * HALO };

/* A field with halos, some numbers and texts, and a state of them. */
typedef struct {
  double u[NY + 2 * HALO][ACROSS];
  int64_t step;
  float corner[2];
  char name[32];
  cairn_strings* words;
  cairn_vector* particles;
  cairn_vector* log;
  int64_t id_list[3];
  double by_id[3][2];
  cairn_ids* ids;
  double turns[2][3];
  double* now;
  cairn_state* state;
} model;

static void make(model* m) {
  static const int64_t shape[] = {NY, NX}, zero[] = {0, 0}, strides[] = {ACROSS, 1};
  static const int64_t two[] = {2}, four[] = {4}, row[] = {3}, at_left[] = {0}, at_right[] = {3};
  static const int64_t one[] = {1}, rows_by_id[] = {3, 2}, three[] = {3};
  const cairn_patch patches[] = {{&m->corner[0], at_left, one, NULL},
                                 {&m->corner[1], at_right, one, NULL}};
  cairn_rows rows;
  OK(cairn_state_create(&m->state));
  OK(cairn_state_add_whole(m->state, "step", CAIRN_INT64, 0, &m->step, NULL, NULL));
  OK(cairn_state_add_slice(m->state, "u", CAIRN_FLOAT64, 2, &m->u[HALO][HALO], shape, zero, shape,
                           strides));
  OK(cairn_state_add_text(m->state, "name", m->name, sizeof(m->name), -1, '\0'));
  OK(cairn_strings_create(&m->words));
  OK(cairn_state_add_strings(m->state, "words", m->words));
  OK(cairn_vector_create(CAIRN_FLOAT64, 1, row, &m->particles));
  rows = cairn_vector_rows(m->particles);
  OK(cairn_state_add_ragged(m->state, "particles", CAIRN_FLOAT64, 1, row, &rows, NULL, NULL));
  OK(cairn_vector_create(CAIRN_UINT8, 0, NULL, &m->log));
  rows = cairn_vector_rows(m->log);
  OK(cairn_state_add_private_rows(m->state, "log", CAIRN_UINT8, 0, NULL, &rows, 0, NULL, NULL));
  OK(cairn_ids_create(CAIRN_INT64, m->id_list, 3, 1, -1, NULL, &m->ids));
  OK(cairn_state_add_indexed(m->state, "by_id", m->ids, CAIRN_FLOAT64, 2, m->by_id, rows_by_id,
                             NULL));
  OK(cairn_state_add_slice_at(m->state, "turns", CAIRN_FLOAT64, 1, (void* const*)&m->now, three,
                              at_left, three, NULL));
  /* The corners do not cover their tensor: another state has two more patches of it. */
  FAILS(cairn_state_add_patches(m->state, "step", CAIRN_FLOAT32, 1, four, 2, patches),
        CAIRN_INVALID_ARGUMENT, "is in the state already");
  OK(cairn_state_add_patches(m->state, "nothing", CAIRN_FLOAT32, 1, at_left, 0, NULL));
  OK(cairn_state_add_private(m->state, "corner", CAIRN_FLOAT32, 1, m->corner, two, 1, NULL, NULL));
  OK(cairn_state_units(m->state, "u", "m/s"));
  OK(cairn_state_attribute(m->state, "u", "levels", "[1, 2]"));
  OK(cairn_state_attribute(m->state, NULL, "run", "\"first\""));
}

static void start(model* m) {
  int x, y;
  memset(m, 0, sizeof(*m));
  m->now = m->turns[0];
  for (y = 0; y < NY + 2 * HALO; ++y) {
    for (x = 0; x < ACROSS; ++x) m->u[y][x] = -1; /* halos keep that */
  }
  make(m);
}

static void end(model* m) {
  cairn_state_free(m->state);
  cairn_strings_free(m->words);
  cairn_vector_free(m->particles);
  cairn_vector_free(m->log);
  cairn_ids_free(m->ids);
}

static void set_values(model* m) {
  int i, x, y;
  for (y = 0; y < NY; ++y) {
    for (x = 0; x < NX; ++x) m->u[y + HALO][x + HALO] = 10 * y + x;
  }
  m->step = 7;
  strcpy(m->name, "a run");
  OK(cairn_strings_append(m->words, "zero\0byte", 9));
  OK(cairn_strings_append(m->words, "", 0));
  OK(cairn_vector_resize(m->particles, 4));
  for (i = 0; i < 12; ++i) ((double*)cairn_vector_data(m->particles))[i] = i;
  OK(cairn_vector_resize(m->log, 3));
  memcpy(cairn_vector_data(m->log), "log", 3);
  for (i = 0; i < 3; ++i) {
    m->id_list[i] = 3 - i; /* backwards, from 1 on */
    m->by_id[i][0] = 3 - i;
    m->by_id[i][1] = -(3 - i);
    m->turns[1][i] = 100 + i;
  }
  m->now = m->turns[1]; /* after the state was made */
  m->corner[0] = 0.5F;
}

static void check_values(const model* m) {
  int i, x, y;
  size_t size = 0;
  for (y = 0; y < NY + 2 * HALO; ++y) {
    for (x = 0; x < ACROSS; ++x) {
      const int inside = y >= HALO && y < NY + HALO && x >= HALO && x < NX + HALO;
      const double right = inside ? 10 * (y - HALO) + (x - HALO) : -1;
      CHECK(memcmp(&m->u[y][x], &right, sizeof(right)) == 0);
    }
  }
  CHECK(m->step == 7 && strcmp(m->name, "a run") == 0);
  CHECK(cairn_strings_count(m->words) == 2);
  CHECK(memcmp(cairn_strings_at(m->words, 0, &size), "zero\0byte", 9) == 0 && size == 9);
  CHECK(cairn_strings_at(m->words, 2, NULL) == NULL);
  CHECK(cairn_vector_count(m->particles) == 4);
  for (i = 0; i < 12; ++i) CHECK(lrint(((double*)cairn_vector_data(m->particles))[i]) == i);
  CHECK(cairn_vector_count(m->log) == 3 && memcmp(cairn_vector_data(m->log), "log", 3) == 0);
  for (i = 0; i < 3; ++i) {
    CHECK(lrint(m->by_id[i][0]) == m->id_list[i] && lrint(m->by_id[i][1]) == -m->id_list[i]);
    CHECK(lrint(m->turns[0][i]) == 100 + i);
  }
  CHECK(m->corner[0] > 0.4F);
}

static void look_inside(const char* prefix) {
  cairn_contents* contents;
  const cairn_tensor* u;
  const char* const* strings;
  const size_t* sizes;
  size_t count = 0, i;
  double box[2][2], all[NY][NX];
  const int64_t at[] = {1, 3}, extent[] = {2, 2}, outside[] = {3, 4};
  OK(cairn_open(prefix, &contents));
  CHECK(cairn_contents_info(contents)->step == 3 && cairn_contents_info(contents)->ranks == 1);
  CHECK(cairn_contents_info(contents)->has_metric && cairn_contents_info(contents)->metric < 0.26);
#if !CAIRN_VERSION_GE(0, 1, 0) || \
    CAIRN_VERSION_GE(CAIRN_VERSION_MAJOR, CAIRN_VERSION_MINOR, CAIRN_VERSION_PATCH + 1)
#error "CAIRN_VERSION_GE compares wrongly"
#endif
  CHECK(strcmp(cairn_contents_info(contents)->version, cairn_version()) == 0);
  u = cairn_contents_find(contents, "u");
  CHECK(u && u->dtype == CAIRN_FLOAT64 && u->dims == 2 && u->shape[0] == NY && u->shape[1] == NX);
  CHECK(u->slice_count >= 1 && u->slices[0]->size == NX * NY * 8 && strcmp(u->units, "m/s") == 0);
  CHECK(u->slices[0]->codec == 0 && u->slices[0]->raw_size == u->slices[0]->size);
  CHECK(strcmp(cairn_contents_attribute(contents, "u", "levels"), "[1,2]") == 0);
  CHECK(strcmp(cairn_contents_attribute(contents, NULL, "run"), "\"first\"") == 0);
  CHECK(strcmp(cairn_contents_attribute(contents, NULL, "note"), "true") == 0);
  CHECK(cairn_contents_attribute(contents, "u", "nothing") == NULL);
  for (i = 1; i < cairn_contents_count(contents); ++i) {
    CHECK(strcmp(cairn_contents_at(contents, i - 1)->key, cairn_contents_at(contents, i)->key) < 0);
  }
  CHECK(cairn_contents_at(contents, i) == NULL && cairn_contents_find(contents, "v") == NULL);
  OK(cairn_contents_read(contents, "u", at, extent, box, sizeof(box)));
  CHECK(lrint(box[0][0]) == 13 && lrint(box[0][1]) == 14 && lrint(box[1][0]) == 23);
  OK(cairn_contents_read(contents, "u", NULL, NULL, all, sizeof(all)));
  CHECK(lrint(all[NY - 1][NX - 1]) == 10 * (NY - 1) + NX - 1);
  OK(cairn_contents_read_strings(contents, "words", &count, &strings, &sizes));
  CHECK(count == 2 && sizes[0] == 9 && sizes[1] == 0 && memcmp(strings[0], "zero\0byte", 9) == 0);
  FAILS(cairn_contents_read(contents, "u", at, extent, box, 1), CAIRN_INVALID_ARGUMENT, "32 bytes");
  FAILS(cairn_contents_read(contents, "wrods", NULL, NULL, box, 1), CAIRN_NOT_FOUND,
        "Did you mean 'words'?");
  FAILS(cairn_contents_read(contents, "u", outside, extent, box, sizeof(box)),
        CAIRN_INVALID_ARGUMENT, "u");
  FAILS(cairn_open("nowhere/ckpt-1", &contents), CAIRN_NOT_FOUND, "nowhere");
  cairn_contents_free(contents);
}

static int said_at_step = -1;
static int before_save(void* context, int64_t step) {
  if (context) return 99;
  said_at_step = (int)step;
  return CAIRN_OK;
}
static int before_save_with_words(void* context, int64_t step) {
  (void)context, (void)step;
  cairn_set_error(CAIRN_UNSUPPORTED, "the solver is in the middle of a step", "its state is half",
                  "Wait.");
  return 1;
}

static void options_by_name(void) {
  cairn_options* options;
  const char* value;
  size_t i;
  OK(cairn_options_create(&options));
  OK(cairn_options_set(options, "max_to_keep", "3"));
  OK(cairn_options_get(options, "keep.last", &value));
  CHECK(strcmp(value, "3") == 0);
  FAILS(cairn_options_set(options, "keep.lats", "3"), CAIRN_INVALID_ARGUMENT,
        "Did you mean 'keep.last'?");
  FAILS(cairn_options_set(options, "format", "hdf5"), CAIRN_INVALID_ARGUMENT,
        "Did you mean 'store.format'?");
  FAILS(cairn_options_set(options, "keep.last", "many"), CAIRN_INVALID_ARGUMENT, "a whole number");
  FAILS(cairn_options_set(options, "store.format", "zarr"), CAIRN_INVALID_ARGUMENT, "bundle, hdf5");
  FAILS(cairn_options_set(options, "when.clock", "1"), CAIRN_UNSUPPORTED, "when.clock");
  FAILS(cairn_options_set(NULL, "keep.last", "3"), CAIRN_INVALID_ARGUMENT, "NULL");
  FAILS(cairn_options_set(options, NULL, "3"), CAIRN_INVALID_ARGUMENT, "NULL");
  for (i = 0; cairn_options_name(i); ++i) {
    if (strstr(cairn_options_name(i), ".KEY")) continue;
    OK(cairn_options_get(options, cairn_options_name(i), &value));
    OK(cairn_options_set(options, cairn_options_name(i), value));
  }
  CHECK(i > 30);
  cairn_options_free(options);
}

static void save_and_restore(const char* directory) {
  model m;
  cairn_group* group;
  cairn_options* options;
  cairn_save_options* how;
  cairn_restore_options* restoring;
  cairn_manager* manager;
  cairn_save* save;
  const cairn_report* report;
  const cairn_step_info* const* steps;
  const cairn_stop_reason* reason;
  cairn_stop* stop;
  const char* prefix;
  const char *names[] = {"signals", "time_limit"}, *values[] = {"", "false"};
  char kept[4096];
  int64_t step = 0;
  size_t count = 0;
  int yes = 0, idle = 0;

  start(&m);
  OK(cairn_group_serial(&group));
  CHECK(cairn_group_rank(group) == 0 && cairn_group_size(group) == 1);
  OK(cairn_options_create(&options));
  OK(cairn_options_set(options, "when.interval.steps", "10"));
  OK(cairn_options_before_save(options, before_save, NULL));
  OK(cairn_stop_create(2, names, values, &stop));
  OK(cairn_options_stop(options, stop));
  OK(cairn_manager_create(group, directory, options, &manager));
  cairn_group_free(group); /* the manager keeps it */
  OK(cairn_manager_restore_latest(manager, m.state, NULL, &step, &report));
  CHECK(step == -1 && report == NULL);
  FAILS(cairn_manager_restore(manager, 5, m.state, NULL, NULL), CAIRN_NOT_FOUND, "5");
  set_values(&m);
  OK(cairn_save_options_create(&how));
  OK(cairn_save_options_set(how, "metric", "0.25"));
  OK(cairn_save_options_set(how, "attributes.note", "true"));
  OK(cairn_manager_save(manager, 3, m.state, how, &prefix));
  CHECK(said_at_step == 3);
  strcpy(kept, prefix);
  FAILS(cairn_manager_save(manager, 3, m.state, how, NULL), CAIRN_ALREADY_EXISTS,
        "set 'overwrite'");
  FAILS(cairn_manager_save(manager, 4, NULL, NULL, NULL), CAIRN_INVALID_ARGUMENT, "NULL");
  OK(cairn_manager_save_async(manager, 9, m.state, NULL, &save));
  OK(cairn_save_wait_written(save));
  OK(cairn_manager_poll(manager, &idle));
  OK(cairn_manager_wait(manager));
  OK(cairn_manager_wait_home(manager));
  CHECK(cairn_save_stage(save) == CAIRN_COMMITTED && cairn_save_step(save) == 9);
  OK(cairn_save_error(save));
  cairn_save_free(save);
  OK(cairn_manager_should_save(manager, 19, &yes));
  CHECK(!yes);
  OK(cairn_manager_should_stop(manager, &reason));
  CHECK(reason == NULL);
  cairn_stop_request(stop);
  CHECK(cairn_stop_requested(stop));
  while (reason == NULL) OK(cairn_manager_should_stop(manager, &reason));
  CHECK(reason->kind == 4 && reason->exit_code == 76 && strstr(reason->text, "application"));
  OK(cairn_manager_steps(manager, &count, &steps));
  CHECK(count == 2 && steps[0]->step == 3 && steps[1]->step == 9 && steps[1]->newest);
  CHECK(steps[0]->has_metric && !steps[1]->has_metric && steps[0]->damage[0] == '\0');
  OK(cairn_manager_pin(manager, 3));
  OK(cairn_manager_steps(manager, &count, &steps));
  CHECK(steps[0]->pinned);
  OK(cairn_manager_unpin(manager, 3));
  FAILS(cairn_manager_unpin(manager, 4), CAIRN_NOT_FOUND, "4");
  CHECK(steps[1]->passed_over[0] == '\0');
  OK(cairn_manager_mark(manager, 9, 0));
  OK(cairn_manager_steps(manager, &count, &steps));
  CHECK(strstr(steps[1]->passed_over, "bad") != NULL);
  OK(cairn_manager_mark(manager, 9, 1));
  OK(cairn_manager_steps(manager, &count, &steps));
  CHECK(steps[1]->passed_over[0] == '\0');
  FAILS(cairn_manager_mark(manager, 4, 0), CAIRN_NOT_FOUND, "4");
  cairn_manager_free(manager);
  cairn_stop_free(stop);
  end(&m);

  start(&m);
  OK(cairn_strings_append(m.words, "any", 3));
  OK(cairn_strings_append(m.words, "", 0));
  m.id_list[0] = 2; /* other rows, in another order */
  m.id_list[1] = 2;
  m.id_list[2] = 1;
  OK(cairn_options_set(options, "read_only", "true"));
  OK(cairn_group_serial(&group));
  OK(cairn_manager_create(group, directory, options, &manager));
  OK(cairn_restore_options_create(&restoring));
  OK(cairn_manager_restore_latest(manager, m.state, restoring, &step, &report));
  CHECK(step == 9 && report->step == 9 && report->unused_count == 0 && !report->unchecked);
  check_values(&m);
  OK(cairn_restore_options_set(restoring, "rename.u", "nowhere"));
  FAILS(cairn_manager_restore(manager, 3, m.state, restoring, NULL), CAIRN_NOT_FOUND, "nowhere");
  CHECK(strcmp(cairn_last_error()->tensor, "") != 0);
  OK(cairn_restore_options_set(restoring, "may_be_missing.u", "true"));
  OK(cairn_manager_restore(manager, 3, m.state, restoring, &report));
  CHECK(report->kept_count == 1 && strcmp(report->kept_keys[0], "u") == 0);
  CHECK(report->unused_count == 1 && strcmp(report->unused_keys[0], "u") == 0);
  FAILS(cairn_restore_options_set(restoring, "renam.u", "v"), CAIRN_INVALID_ARGUMENT, "rename");
  cairn_manager_free(manager);
  cairn_restore_options_free(restoring);
  end(&m);

  OK(cairn_options_set(options, "read_only", "false"));
  start(&m);
  OK(cairn_options_before_save(options, before_save_with_words, NULL));
  OK(cairn_manager_create(group, directory, options, &manager));
  FAILS(cairn_manager_save(manager, 30, m.state, NULL, NULL), CAIRN_UNSUPPORTED,
        "in the middle of a step");
  CHECK(strcmp(cairn_last_error()->way_out, "Wait.") == 0);
  cairn_manager_free(manager);
  FAILS(cairn_manager_create(group, NULL, NULL, &manager), CAIRN_INVALID_ARGUMENT, "NULL");
  cairn_group_free(group);
  cairn_options_free(options);
  cairn_save_options_free(how);
  end(&m);
  look_inside(kept);
}

static void text_in_fixed_memory(const char* directory) {
  char two[2][4] = {{'a', 'b', ' ', ' '}, {' ', 'c', 'd', 'e'}}, more[2][6], small[2][3];
  char zeros[5] = "full";
  char path[4096];
  cairn_group* group;
  cairn_manager* manager;
  cairn_state* state;
  snprintf(path, sizeof(path), "%s/text", directory);
  OK(cairn_group_serial(&group));
  OK(cairn_manager_create(group, path, NULL, &manager));
  OK(cairn_state_create(&state));
  OK(cairn_state_add_text(state, "two", two[0], 4, 2, ' '));
  OK(cairn_state_add_text(state, "zeros", zeros, sizeof(zeros), -1, '\0'));
  OK(cairn_manager_save(manager, 1, state, NULL, NULL));
  cairn_state_free(state);
  OK(cairn_state_create(&state));
  OK(cairn_state_add_text(state, "two", more[0], 6, 2, ' '));
  memset(zeros, 'x', sizeof(zeros));
  OK(cairn_state_add_text(state, "zeros", zeros, sizeof(zeros), -1, '\0'));
  OK(cairn_manager_restore_latest(manager, state, NULL, NULL, NULL));
  CHECK(memcmp(more, "ab     cde  ", 12) == 0 && strcmp(zeros, "full") == 0);
  cairn_state_free(state);
  OK(cairn_state_create(&state));
  OK(cairn_state_add_text(state, "two", small[0], 3, 2, ' '));
  FAILS(cairn_manager_restore_latest(manager, state, NULL, NULL, NULL), CAIRN_INVALID_ARGUMENT,
        "room for 3");
  cairn_state_free(state);
  cairn_manager_free(manager);
  cairn_group_free(group);
}

static void what_cannot_be_used(void) {
  cairn_state* state;
  cairn_group* group;
  cairn_group_calls calls;
  const char* value;
  double u[2];
  const int64_t two[] = {2}, one[] = {1}, big[] = {INT64_MAX, 4}, zero[] = {0, 0};
  OK(cairn_state_create(&state));
  FAILS(cairn_state_add_whole(NULL, "u", CAIRN_FLOAT64, 1, u, two, NULL), CAIRN_INVALID_ARGUMENT,
        "the state is NULL");
  FAILS(cairn_state_add_whole(state, NULL, CAIRN_FLOAT64, 1, u, two, NULL), CAIRN_INVALID_ARGUMENT,
        "the key is NULL");
  FAILS(cairn_state_add_whole(state, "u", 99, 1, u, two, NULL), CAIRN_INVALID_ARGUMENT,
        "99 is no dtype");
  FAILS(cairn_state_add_whole(state, "u", CAIRN_FLOAT64, 1, u, NULL, NULL), CAIRN_INVALID_ARGUMENT,
        "the shape is NULL");
  FAILS(cairn_state_add_whole(state, "u", CAIRN_FLOAT64, -1, u, two, NULL), CAIRN_INVALID_ARGUMENT,
        "-1 dimensions");
  FAILS(cairn_state_add_whole(state, "u", CAIRN_FLOAT64, 1, NULL, two, NULL),
        CAIRN_INVALID_ARGUMENT, "u");
  FAILS(cairn_state_add_slice(state, "u", CAIRN_FLOAT64, 1, u, two, one, two, NULL),
        CAIRN_INVALID_ARGUMENT, "outside");
  CHECK(strcmp(cairn_last_error()->tensor, "u") == 0);
  FAILS(cairn_state_add_slice(state, "u", CAIRN_FLOAT64, 2, u, big, zero, big, NULL),
        CAIRN_INVALID_ARGUMENT, "");
  FAILS(cairn_state_add_whole(state, "_cairn/u", CAIRN_FLOAT64, 1, u, two, NULL),
        CAIRN_INVALID_ARGUMENT, "_cairn/");
  FAILS(cairn_state_store(state, "thin"), CAIRN_INVALID_ARGUMENT, "dense");
  memset(&calls, 0, sizeof(calls));
  FAILS(cairn_group_from_calls(&calls, &group), CAIRN_INVALID_ARGUMENT, "smaller than it ever");
  calls.struct_size = sizeof(calls) + sizeof(void*);
  FAILS(cairn_group_from_calls(&calls, &group), CAIRN_INVALID_ARGUMENT, "does not know");
  calls.struct_size = sizeof(calls);
  FAILS(cairn_group_from_calls(&calls, &group), CAIRN_INVALID_ARGUMENT, "no rank 0 of 0");
  calls.size = 1;
  FAILS(cairn_group_from_calls(&calls, &group), CAIRN_INVALID_ARGUMENT, "lacks a function");
  cairn_state_free(state);
  cairn_state_free(NULL);
  cairn_manager_free(NULL);
  CHECK(cairn_dtype_size(CAIRN_COMPLEX128) == 16 && cairn_dtype_size(99) == 0);
  CHECK(cairn_dtype_from_name("bfloat16") == CAIRN_BFLOAT16 && cairn_dtype_from_name("x") == 0);
  CHECK(strcmp(cairn_dtype_name(CAIRN_BOOLEAN), "bool") == 0);
  CHECK(strcmp(cairn_code_name(CAIRN_DATA_LOSS), "data_loss") == 0);
  CHECK(strcmp(cairn_build_option(0, &value), "compiler") == 0 && strlen(value) > 3);
  CHECK(cairn_build_option(1000, &value) == NULL && value == NULL);
}

/* A group whose third sum over ranks fails: ranks cannot agree, and the group's abort ends the
 * job. */
static int sums = 0;
static int failing_sum(void* given, int64_t* values, size_t count, int op) {
  (void)given, (void)values, (void)count, (void)op;
  if (++sums < 3) return CAIRN_OK;
  cairn_set_error(CAIRN_IO, "the cable is out", "", "");
  return 1;
}
static int nothing(void* given) {
  (void)given;
  return CAIRN_OK;
}
static int no_exchange(void* given, size_t sends, const cairn_send* send, size_t receives,
                       const cairn_receive* receive) {
  (void)given, (void)sends, (void)send, (void)receives, (void)receive;
  return CAIRN_OK;
}
static int no_send(void* given, int to, const void* bytes, size_t size) {
  (void)given, (void)to, (void)bytes, (void)size;
  return CAIRN_OK;
}
static int no_receive(void* given, int from, void* bytes, size_t size) {
  (void)given, (void)from, (void)bytes, (void)size;
  return CAIRN_OK;
}
static int same_everywhere(void* given, void* bytes, size_t size, int root) {
  (void)given, (void)bytes, (void)size, (void)root;
  return CAIRN_OK;
}
static void end_job(void* given, const char* message) {
  (void)given;
  printf("the job ends: %s\n", message);
  exit(0);
}
static int failing_group(const char* directory) {
  cairn_group_calls calls;
  cairn_group* group;
  cairn_manager* manager;
  memset(&calls, 0, sizeof(calls));
  calls.struct_size = sizeof(calls);
  calls.size = 1;
  calls.exchange = no_exchange;
  calls.send = no_send;
  calls.receive = no_receive;
  calls.barrier = nothing;
  calls.broadcast = same_everywhere;
  calls.all_reduce = failing_sum;
  calls.abort = end_job;
  OK(cairn_group_from_calls(&calls, &group));
  cairn_manager_create(group, directory, NULL, &manager);
  puts("the job goes on");
  return 1;
}

int main(int argc, char** argv) {
  if (argc == 3) return failing_group(argv[1]);
  if (argc != 2) return 2;
  options_by_name();
  what_cannot_be_used();
  save_and_restore(argv[1]);
  text_in_fixed_memory(argv[1]);
  puts("the C face works by one process");
  return 0;
}
