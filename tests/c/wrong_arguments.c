/* Each function gets NULL for each argument that it needs, in turn, and numbers that are
 * invalid. The result is always an error that names the argument, or the answer "nothing", and
 * never a crash. usage: c_wrong_arguments DIRECTORY */
#include <math.h>

#include "checks.h"

#define NAMES_KEY(call)                                                                      \
  check_((call) == CAIRN_INVALID_ARGUMENT && strcmp(cairn_last_error()->tensor, "k") == 0 && \
             strstr(cairn_last_error()->problem, "'k'") != NULL,                             \
         "the key of " #call, __FILE__, __LINE__)
#define IS_NULL(call) FAILS(call, CAIRN_INVALID_ARGUMENT, "NULL")

static const int64_t two[] = {2}, zero[] = {0};
static double u[2] = {1, 2};

/* If a failing function may have freed something, a program can neither free it nor leave it. */
static int64_t one_row(void* context) {
  (void)context;
  return 1;
}
static void* its_data(void* context) {
  (void)context;
  return u;
}
static void release(void* context) { ++*(int*)context; }
static int exchange(void* c, size_t n, const cairn_send* s, size_t m, const cairn_receive* r) {
  (void)c, (void)n, (void)s, (void)m, (void)r;
  return CAIRN_OK;
}
static int sent(void* c, int to, const void* bytes, size_t size) {
  (void)c, (void)to, (void)bytes, (void)size;
  return CAIRN_OK;
}
static int received(void* c, int from, void* bytes, size_t size) {
  (void)c, (void)from, (void)bytes, (void)size;
  return CAIRN_OK;
}
static int barrier(void* c) {
  (void)c;
  return CAIRN_OK;
}
static int broadcast(void* c, void* bytes, size_t size, int root) {
  (void)c, (void)bytes, (void)size, (void)root;
  return CAIRN_OK;
}
static int all_reduce(void* c, int64_t* values, size_t count, int op) {
  (void)c, (void)values, (void)count, (void)op;
  return CAIRN_OK;
}
static void what_is_refused_is_not_released(void) {
  cairn_state* s;
  cairn_ids* ids;
  int released = 0;
  const cairn_rows rows = {&released, one_row, NULL, its_data, release};
  const cairn_group_calls calls = {sizeof(calls), 0,    1,        0,       &released,
                                   exchange,      sent, received, barrier, broadcast,
                                   all_reduce,    NULL, release};
  OK(cairn_state_create(&s));
  OK(cairn_state_add_ragged(s, "k", CAIRN_FLOAT64, 0, NULL, &rows, NULL, NULL));
  FAILS(cairn_state_add_ragged(s, "k", CAIRN_FLOAT64, 0, NULL, &rows, NULL, NULL),
        CAIRN_INVALID_ARGUMENT, "k");
  FAILS(cairn_state_add_resizable(s, "k", CAIRN_FLOAT64, 0, NULL, &rows), CAIRN_INVALID_ARGUMENT,
        "k");
  FAILS(cairn_state_add_private_rows(s, "k", CAIRN_FLOAT64, 0, NULL, &rows, 0, NULL, NULL),
        CAIRN_INVALID_ARGUMENT, "k");
  IS_NULL(cairn_state_add_indexed_rows(s, "i", NULL, CAIRN_FLOAT64, 0, NULL, &rows));
  IS_NULL(cairn_ids_create_rows(CAIRN_INT64, &rows, 0, -1, NULL, NULL));
  IS_NULL(cairn_group_from_calls(&calls, NULL));
  CHECK(released == 0);
  OK(cairn_ids_create_rows(CAIRN_INT64, &rows, 0, -1, NULL, &ids));
  cairn_ids_free(ids);
  CHECK(released == 1);
  cairn_state_free(s);
  CHECK(released == 2);
}

static void states(void) {
  cairn_state* s;
  cairn_strings* words;
  cairn_vector* v;
  cairn_ids* ids;
  cairn_rows rows, half;
  const int64_t id_list[] = {0, 1}, negative[] = {-2}, huge[] = {INT64_MAX};
  const double fill = 0;
  const cairn_patch patch = {u, zero, two, NULL}, no_start = {u, NULL, two, NULL},
                    no_extent = {u, zero, NULL, NULL}, no_data = {NULL, zero, two, NULL};
  const char* const names[] = {"x"};
  const char* const no_name[] = {NULL};
  char text[2][4] = {"a", "b"};
  size_t size;
  OK(cairn_state_create(&s));
  OK(cairn_strings_create(&words));
  OK(cairn_vector_create(CAIRN_FLOAT64, 0, NULL, &v));
  OK(cairn_ids_create(CAIRN_INT64, id_list, 2, 0, -1, NULL, &ids));
  rows = half = cairn_vector_rows(v);
  half.data = NULL;
  IS_NULL(cairn_state_create(NULL));
  IS_NULL(cairn_strings_create(NULL));
  IS_NULL(cairn_vector_create(CAIRN_FLOAT64, 0, NULL, NULL));
  IS_NULL(cairn_vector_create(CAIRN_FLOAT64, 1, NULL, &v));
  IS_NULL(cairn_ids_create(CAIRN_INT64, NULL, 2, 0, -1, NULL, &ids));
  IS_NULL(cairn_ids_create(CAIRN_INT64, id_list, 2, 0, -1, NULL, NULL));
  IS_NULL(cairn_ids_create_rows(CAIRN_INT64, NULL, 0, -1, NULL, &ids));
  IS_NULL(cairn_ids_create_rows(CAIRN_INT64, &rows, 0, -1, NULL, NULL));

  IS_NULL(cairn_state_add_slice(NULL, "k", CAIRN_FLOAT64, 1, u, two, zero, two, NULL));
  IS_NULL(cairn_state_add_slice(s, NULL, CAIRN_FLOAT64, 1, u, two, zero, two, NULL));
  NAMES_KEY(cairn_state_add_slice(s, "k", CAIRN_FLOAT64, 1, u, NULL, zero, two, NULL));
  NAMES_KEY(cairn_state_add_slice(s, "k", CAIRN_FLOAT64, 1, u, two, two, two, NULL));
  NAMES_KEY(cairn_state_add_slice_at(s, "k", 99, 1, (void* const*)u, two, zero, two, NULL));
  NAMES_KEY(cairn_state_add_whole(s, "k", 99, 1, u, two, NULL));
  NAMES_KEY(cairn_state_add_whole(s, "k", CAIRN_FLOAT64, -1, u, two, NULL));
  NAMES_KEY(cairn_state_add_whole(s, "k", CAIRN_FLOAT64, 1, u, negative, NULL));
  NAMES_KEY(cairn_state_add_patches(s, "k", CAIRN_FLOAT64, 1, two, 1, &no_start));
  NAMES_KEY(cairn_state_add_text(s, "k", text[0], 1, -7, 0));
  NAMES_KEY(cairn_state_add_resizable(s, "k", 99, 0, NULL, &rows));
  NAMES_KEY(cairn_state_add_ragged(s, "k", CAIRN_FLOAT64, 0, NULL, &half, NULL, NULL));
  NAMES_KEY(cairn_state_add_private_rows(s, "k", CAIRN_FLOAT64, 1, NULL, &rows, 0, NULL, NULL));
  NAMES_KEY(cairn_state_add_indexed(s, "k", NULL, CAIRN_FLOAT64, 1, u, two, NULL));
  NAMES_KEY(cairn_state_units(s, "k", NULL));
  NAMES_KEY(cairn_state_attribute(s, "k", "CLASS", "1"));
  NAMES_KEY(cairn_state_attribute(s, "k", "a", NULL));
  IS_NULL(cairn_state_add_slice(s, "k", CAIRN_FLOAT64, 1, u, NULL, zero, two, NULL));
  IS_NULL(cairn_state_add_slice(s, "k", CAIRN_FLOAT64, 1, u, two, NULL, two, NULL));
  IS_NULL(cairn_state_add_slice(s, "k", CAIRN_FLOAT64, 1, u, two, zero, NULL, NULL));
  IS_NULL(cairn_state_add_slice_at(s, "k", CAIRN_FLOAT64, 1, NULL, two, zero, two, NULL));
  IS_NULL(cairn_state_add_whole(s, NULL, CAIRN_FLOAT64, 1, u, two, NULL));
  IS_NULL(cairn_state_add_patches(s, "k", CAIRN_FLOAT64, 1, NULL, 1, &patch));
  IS_NULL(cairn_state_add_patches(s, "k", CAIRN_FLOAT64, 1, two, 1, NULL));
  IS_NULL(cairn_state_add_patches(s, "k", CAIRN_FLOAT64, 1, two, 1, &no_start));
  IS_NULL(cairn_state_add_patches(s, "k", CAIRN_FLOAT64, 1, two, 1, &no_extent));
  FAILS(cairn_state_add_patches(s, "k", CAIRN_FLOAT64, 1, two, 1, &no_data), CAIRN_INVALID_ARGUMENT,
        "k");
  IS_NULL(cairn_state_add_sparse(s, "k", CAIRN_FLOAT64, 1, two, 1, NULL, CAIRN_FLOAT64, &fill, 0));
  FAILS(cairn_state_add_sparse(s, "k", CAIRN_FLOAT64, 1, two, 1, &patch, CAIRN_STRING, &fill, 0),
        CAIRN_INVALID_ARGUMENT, "fill value");
  FAILS(cairn_state_add_sparse(s, "k", CAIRN_FLOAT64, 1, two, 1, &patch, 99, &fill, 0),
        CAIRN_INVALID_ARGUMENT, "99 is no dtype");
  IS_NULL(cairn_state_add_text(s, "k", NULL, 4, 2, ' '));
  FAILS(cairn_state_add_text(s, "k", text[0], 4, -2, ' '), CAIRN_INVALID_ARGUMENT, "-2 texts");
  FAILS(cairn_state_add_text(s, "k", text[0], SIZE_MAX, 2, ' '), CAIRN_INVALID_ARGUMENT, "bytes");
  IS_NULL(cairn_state_add_strings(s, "k", NULL));
  IS_NULL(cairn_state_add_strings(NULL, "k", words));
  IS_NULL(cairn_state_add_resizable_strings(s, "k", NULL));
  IS_NULL(cairn_strings_append(NULL, "a", 1));
  IS_NULL(cairn_strings_append(words, NULL, 1));
  OK(cairn_strings_append(words, NULL, 0));
  CHECK(cairn_strings_count(NULL) == 0 && cairn_strings_at(NULL, 0, &size) == NULL);
  cairn_strings_clear(NULL);

  IS_NULL(cairn_state_add_resizable(s, "k", CAIRN_FLOAT64, 0, NULL, NULL));
  IS_NULL(cairn_state_add_resizable(s, "k", CAIRN_FLOAT64, 1, NULL, &rows));
  FAILS(cairn_state_add_resizable(s, "k", CAIRN_FLOAT64, 0, NULL, &half), CAIRN_INVALID_ARGUMENT,
        "lack a function");
  IS_NULL(cairn_state_add_ragged(s, "k", CAIRN_FLOAT64, 0, NULL, NULL, NULL, NULL));
  IS_NULL(cairn_state_add_ragged(NULL, "k", CAIRN_FLOAT64, 0, NULL, &rows, NULL, NULL));
  IS_NULL(cairn_state_add_private(s, "k", CAIRN_FLOAT64, 1, u, NULL, 0, NULL, NULL));
  IS_NULL(cairn_state_add_private_rows(s, "k", CAIRN_FLOAT64, 0, NULL, NULL, 0, NULL, NULL));
  IS_NULL(cairn_state_add_indexed(s, "k", NULL, CAIRN_FLOAT64, 1, u, two, NULL));
  IS_NULL(cairn_state_add_indexed(s, "k", ids, CAIRN_FLOAT64, 1, u, NULL, NULL));
  IS_NULL(cairn_state_add_indexed_rows(s, "k", NULL, CAIRN_FLOAT64, 0, NULL, &rows));
  IS_NULL(cairn_state_add_indexed_rows(s, "k", ids, CAIRN_FLOAT64, 0, NULL, NULL));
  rows = cairn_vector_rows(NULL);
  FAILS(cairn_state_add_ragged(s, "k", CAIRN_FLOAT64, 0, NULL, &rows, NULL, NULL),
        CAIRN_INVALID_ARGUMENT, "lack a function");
  FAILS(cairn_state_add_whole(s, "k", CAIRN_FLOAT64, 1, u, negative, NULL), CAIRN_INVALID_ARGUMENT,
        "k");
  FAILS(cairn_state_add_whole(s, "k", CAIRN_FLOAT64, 1, u, huge, NULL), CAIRN_INVALID_ARGUMENT,
        "k");

  /* A vector whose size in bytes overflows would be empty. */
  FAILS(cairn_vector_resize(v, -1), CAIRN_INVALID_ARGUMENT, "-1 rows");
  FAILS(cairn_vector_resize(v, INT64_MAX / 4 + 1), CAIRN_INVALID_ARGUMENT, "rows");
#ifndef SANITIZED /* the address sanitizer ends a program that asks for so much memory */
  FAILS(cairn_vector_resize(v, INT64_MAX / 16), CAIRN_INVALID_ARGUMENT, "rows");
#endif
  CHECK(cairn_vector_count(v) == 0);
  OK(cairn_vector_resize(v, 3));
  IS_NULL(cairn_vector_resize(NULL, 1));
  CHECK(cairn_vector_count(NULL) == -1 && cairn_vector_data(NULL) == NULL);
  FAILS(cairn_ids_create(CAIRN_INT64, id_list, -1, 0, -1, NULL, &ids), CAIRN_INVALID_ARGUMENT,
        "-1 ids");
  FAILS(cairn_vector_create(CAIRN_STRING, 0, NULL, &v), CAIRN_INVALID_ARGUMENT, "strings");
  FAILS(cairn_vector_create(CAIRN_FLOAT64, 1, negative, &v), CAIRN_INVALID_ARGUMENT, "");

  OK(cairn_state_add_whole(s, "u", CAIRN_FLOAT64, 1, u, two, NULL));
  IS_NULL(cairn_state_store(s, NULL));
  IS_NULL(cairn_state_store(NULL, "dense"));
  IS_NULL(cairn_state_units(s, NULL, "m"));
  IS_NULL(cairn_state_units(s, "u", NULL));
  IS_NULL(cairn_state_units(NULL, "u", "m"));
  IS_NULL(cairn_state_dimensions(s, "u", 1, NULL));
  IS_NULL(cairn_state_dimensions(s, "u", 1, no_name));
  IS_NULL(cairn_state_dimensions(s, NULL, 1, names));
  FAILS(cairn_state_dimensions(s, "u", -1, names), CAIRN_INVALID_ARGUMENT, "-1 dimensions");
  IS_NULL(cairn_state_attribute(s, "u", NULL, "1"));
  IS_NULL(cairn_state_attribute(s, "u", "a", NULL));
  IS_NULL(cairn_state_attribute(NULL, NULL, "a", "1"));
  cairn_state_free(s);
  cairn_strings_free(words);
  cairn_vector_free(v);
  cairn_ids_free(ids);
  cairn_strings_free(NULL);
  cairn_vector_free(NULL);
  cairn_ids_free(NULL);
}

static void options(void) {
  cairn_options* o;
  cairn_save_options* saving;
  cairn_restore_options* restoring;
  cairn_stop* stop;
  const char* value;
  const char* const names[] = {NULL};
  const char* const signals[] = {"signals"};
  OK(cairn_options_create(&o));
  OK(cairn_save_options_create(&saving));
  OK(cairn_restore_options_create(&restoring));
  IS_NULL(cairn_options_create(NULL));
  IS_NULL(cairn_save_options_create(NULL));
  IS_NULL(cairn_restore_options_create(NULL));
  IS_NULL(cairn_options_set(o, "keep.last", NULL));
  IS_NULL(cairn_options_get(o, NULL, &value));
  IS_NULL(cairn_options_get(o, "keep.last", NULL));
  IS_NULL(cairn_options_get(NULL, "keep.last", &value));
  FAILS(cairn_options_get(o, "keep.lats", &value), CAIRN_INVALID_ARGUMENT, "keep.last");
  CHECK(cairn_options_name(SIZE_MAX) == NULL);
  IS_NULL(cairn_options_before_save(o, NULL, NULL));
  IS_NULL(cairn_options_migrate(o, NULL, NULL));
  IS_NULL(cairn_migration_set(NULL, "convert", "exact"));
  IS_NULL(cairn_migration_finish(NULL, NULL, NULL));
  CHECK(!cairn_is_newer_version(NULL, NULL) && cairn_is_newer_version("1", NULL));
  IS_NULL(cairn_options_max_shard_size(NULL, 1));
  FAILS(cairn_options_max_shard_size(o, -1), CAIRN_INVALID_ARGUMENT, "");
  IS_NULL(cairn_options_stop(o, NULL));
  IS_NULL(cairn_save_options_set(saving, "metric", NULL));
  IS_NULL(cairn_save_options_set(saving, NULL, "1"));
  IS_NULL(cairn_save_options_set(NULL, "metric", "1"));
  FAILS(cairn_save_options_set(saving, "attributes.CLASS", "1"), CAIRN_INVALID_ARGUMENT, "CLASS");
  FAILS(cairn_save_options_set(saving, "attributes.a", "{1"), CAIRN_INVALID_ARGUMENT, "not JSON");
  FAILS(cairn_save_options_set(saving, "metrik", "1"), CAIRN_INVALID_ARGUMENT, "metric");
  IS_NULL(cairn_restore_options_set(restoring, "convert", NULL));
  IS_NULL(cairn_restore_options_set(NULL, "convert", "exact"));
  FAILS(cairn_restore_options_set(restoring, "convert", "maybe"), CAIRN_INVALID_ARGUMENT, "exact");
  IS_NULL(cairn_stop_create(1, NULL, signals, &stop));
  IS_NULL(cairn_stop_create(1, signals, NULL, &stop));
  IS_NULL(cairn_stop_create(1, names, signals, &stop));
  IS_NULL(cairn_stop_create(0, NULL, NULL, NULL));
  cairn_stop_request(NULL);
  CHECK(cairn_stop_requested(NULL) == 0);
  FAILS(cairn_set_wait_limits(NAN, 0), CAIRN_INVALID_ARGUMENT, "WaitLimits");
  cairn_options_free(o);
  cairn_save_options_free(saving);
  cairn_restore_options_free(restoring);
  cairn_options_free(NULL);
  cairn_save_options_free(NULL);
  cairn_restore_options_free(NULL);
  cairn_stop_free(NULL);
}

static void managers(const char* directory) {
  cairn_group* group;
  cairn_manager* m;
  cairn_state* s;
  cairn_contents* contents;
  const cairn_stop_reason* reason;
  const cairn_step_info* const* infos;
  const char* const* strings;
  char prefix[4096];
  size_t count;
  int yes;
  float narrow[2];
  OK(cairn_group_serial(&group));
  IS_NULL(cairn_group_serial(NULL));
  IS_NULL(cairn_group_from_calls(NULL, &group));
  IS_NULL(cairn_manager_create(NULL, directory, NULL, &m));
  IS_NULL(cairn_manager_create(group, directory, NULL, NULL));
  IS_NULL(cairn_agree(NULL, CAIRN_OK, NULL));
  FAILS(cairn_agree(group, CAIRN_IO, NULL), CAIRN_IO, "");
  FAILS(cairn_agree(group, 12345, "twelve"), CAIRN_APPLICATION, "twelve");
  CHECK(cairn_group_rank(NULL) == -1 && cairn_group_size(NULL) == 0);
  OK(cairn_manager_create(group, directory, NULL, &m));
  OK(cairn_state_create(&s));
  OK(cairn_state_add_whole(s, "u", CAIRN_FLOAT64, 1, u, two, NULL));
  OK(cairn_manager_save(m, 1, s, NULL, NULL));
  IS_NULL(cairn_manager_save(NULL, 1, s, NULL, NULL));
  IS_NULL(cairn_manager_save_async(NULL, 2, s, NULL, NULL));
  IS_NULL(cairn_manager_save_async(m, 2, NULL, NULL, NULL));
  IS_NULL(cairn_manager_restore(NULL, 1, s, NULL, NULL));
  IS_NULL(cairn_manager_restore(m, 1, NULL, NULL, NULL));
  IS_NULL(cairn_manager_restore_latest(NULL, s, NULL, NULL, NULL));
  IS_NULL(cairn_manager_restore_latest(m, NULL, NULL, NULL, NULL));
  IS_NULL(cairn_manager_poll(NULL, &yes));
  OK(cairn_manager_poll(m, NULL));
  IS_NULL(cairn_manager_wait(NULL));
  IS_NULL(cairn_manager_wait_home(NULL));
  IS_NULL(cairn_manager_should_save(NULL, 1, &yes));
  IS_NULL(cairn_manager_should_save(m, 1, NULL));
  IS_NULL(cairn_manager_should_stop(NULL, &reason));
  IS_NULL(cairn_manager_should_stop(m, NULL));
  IS_NULL(cairn_manager_steps(NULL, &count, &infos));
  IS_NULL(cairn_manager_steps(m, NULL, &infos));
  IS_NULL(cairn_manager_steps(m, &count, NULL));
  IS_NULL(cairn_manager_pin(NULL, 1));
  IS_NULL(cairn_manager_unpin(NULL, 1));
  IS_NULL(cairn_manager_mark(NULL, 1, 0));
  IS_NULL(cairn_manager_open(NULL, 1, &contents));
  IS_NULL(cairn_manager_open(m, 1, NULL));
  IS_NULL(cairn_restore_hdf5(NULL, "a.h5", s, NULL));
  IS_NULL(cairn_restore_hdf5(group, NULL, s, NULL));
  FAILS(cairn_manager_save(m, -1, s, NULL, NULL), CAIRN_INVALID_ARGUMENT, "-1");
  CHECK(cairn_save_stage(NULL) == CAIRN_FAILED && cairn_save_step(NULL) == -1);
  IS_NULL(cairn_save_error(NULL));
  IS_NULL(cairn_save_wait_written(NULL));
  cairn_save_free(NULL);
  cairn_state_free(s);

  OK(cairn_state_create(&s)); /* what no save takes, told at once; the state is as it was */
  OK(cairn_state_add_whole(s, "u", CAIRN_FLOAT64, 1, u, two, NULL));
  FAILS(cairn_state_attribute(s, "u", "a", "{1"), CAIRN_INVALID_ARGUMENT, "not JSON");
  CHECK(strcmp(cairn_last_error()->tensor, "u") == 0);
  FAILS(cairn_state_attribute(s, NULL, "", "1"), CAIRN_INVALID_ARGUMENT, "its name is empty");
  FAILS(cairn_state_attribute(s, NULL, "CLASS", "1"), CAIRN_INVALID_ARGUMENT, "CLASS");
  FAILS(cairn_state_attribute(s, "u", "units", "1"), CAIRN_INVALID_ARGUMENT,
        "Give it as cairn_state_units().");
  FAILS(cairn_state_units(s, "u", "\xff"), CAIRN_INVALID_ARGUMENT, "not UTF-8");
  OK(cairn_manager_save(m, 2, s, NULL, NULL));
  cairn_state_free(s);
  OK(cairn_state_create(&s)); /* another dtype than is stored, another shape */
  OK(cairn_state_add_whole(s, "u", CAIRN_FLOAT32, 1, narrow, two, NULL));
  FAILS(cairn_manager_restore(m, 1, s, NULL, NULL), CAIRN_INVALID_ARGUMENT, "float32");
  cairn_state_free(s);
  OK(cairn_state_create(&s));
  OK(cairn_state_add_whole(s, "u", CAIRN_FLOAT64, 0, u, NULL, NULL));
  FAILS(cairn_manager_restore(m, 1, s, NULL, NULL), CAIRN_INVALID_ARGUMENT, "u");
  CHECK(strcmp(cairn_last_error()->tensor, "u") == 0);
  cairn_state_free(s);

  snprintf(prefix, sizeof(prefix), "%s/ckpt-1", directory);
  IS_NULL(cairn_open(NULL, &contents));
  IS_NULL(cairn_open(prefix, NULL));
  OK(cairn_open(prefix, &contents));
  CHECK(cairn_contents_info(NULL) == NULL && cairn_contents_count(NULL) == 0);
  CHECK(cairn_contents_at(NULL, 0) == NULL && cairn_contents_find(contents, NULL) == NULL);
  CHECK(cairn_contents_find(NULL, "u") == NULL && cairn_contents_at(contents, SIZE_MAX) == NULL);
  CHECK(cairn_contents_attribute(contents, "u", NULL) == NULL);
  CHECK(cairn_contents_attribute(NULL, "u", "a") == NULL);
  IS_NULL(cairn_contents_read(NULL, "u", NULL, NULL, u, sizeof(u)));
  IS_NULL(cairn_contents_read(contents, NULL, NULL, NULL, u, sizeof(u)));
  IS_NULL(cairn_contents_read(contents, "u", NULL, NULL, NULL, sizeof(u)));
  IS_NULL(cairn_contents_read(contents, "u", zero, NULL, u, sizeof(u)));
  IS_NULL(cairn_contents_read(contents, "u", NULL, two, u, sizeof(u)));
  IS_NULL(cairn_contents_read_strings(NULL, "u", &count, &strings, NULL));
  IS_NULL(cairn_contents_read_strings(contents, NULL, &count, &strings, NULL));
  IS_NULL(cairn_contents_read_strings(contents, "u", NULL, &strings, NULL));
  IS_NULL(cairn_contents_read_strings(contents, "u", &count, NULL, NULL));
  FAILS(cairn_contents_read_strings(contents, "u", &count, &strings, NULL), CAIRN_INVALID_ARGUMENT,
        "u");
  cairn_contents_free(contents);
  cairn_contents_free(NULL);
  cairn_manager_free(m);
  cairn_group_free(group);
  cairn_group_free(NULL);
  CHECK(cairn_dtype_from_name(NULL) == 0 && cairn_dtype_name(-7)[0] == '\0');
  CHECK(strcmp(cairn_code_name(CAIRN_OK), "ok") == 0 && cairn_code_name(999) != NULL);
  CHECK(cairn_build_option(0, NULL) != NULL);
  cairn_set_error(CAIRN_IO, NULL, NULL, NULL);
}

/* After an error, a program that uses or frees the handle finds what it had. */
static void what_fails_leaves_the_handle(const char* directory) {
  char path[4096];
  cairn_group* group;
  cairn_manager* m = NULL;
  cairn_contents* contents = NULL;
  cairn_save* save = NULL;
  cairn_restore_options* options;
  cairn_options* wrong;
  cairn_manager* other = NULL;
  cairn_state* s;
  char text[8] = "longer", small[3] = "";
  OK(cairn_group_serial(&group));
  CHECK(cairn_manager_create(group, "/dev/null/run", NULL, &m) != CAIRN_OK);
  CHECK(m == NULL);
  snprintf(path, sizeof(path), "%s/no/ckpt-1", directory);
  FAILS(cairn_open(path, &contents), CAIRN_NOT_FOUND, "");
  CHECK(contents == NULL);
  snprintf(path, sizeof(path), "%s/handles", directory);
  OK(cairn_manager_create(group, path, NULL, &m));
  FAILS(cairn_manager_save_async(m, 1, NULL, NULL, &save), CAIRN_INVALID_ARGUMENT, "NULL");
  CHECK(save == NULL);
  IS_NULL(cairn_save_error(save));
  OK(cairn_options_create(&wrong));
  OK(cairn_options_set(wrong, "frozen.read_every", "-1"));
  FAILS(cairn_manager_create(group, path, wrong, &other), CAIRN_INVALID_ARGUMENT,
        "'frozen.read_every' is -1");
  cairn_options_free(wrong);
  OK(cairn_state_create(&s));
  OK(cairn_state_add_text(s, "text", text, sizeof(text), -1, '\0'));
  OK(cairn_manager_save(m, 2, s, NULL, NULL));
  cairn_state_free(s);
  OK(cairn_state_create(&s));
  OK(cairn_state_add_text(s, "text", small, sizeof(small), -1, '\0'));
  FAILS(cairn_manager_restore(m, 2, s, NULL, NULL), CAIRN_INVALID_ARGUMENT, "6 bytes");
  CHECK(strcmp(cairn_last_error()->tensor, "text") == 0);
  FAILS(cairn_state_attribute(s, "u", "note", "hello"), CAIRN_INVALID_ARGUMENT, "double quotes");
  OK(cairn_restore_options_create(&options));
  FAILS(cairn_restore_options_set(options, "rename", "v"), CAIRN_INVALID_ARGUMENT, "rename.KEY");
  cairn_restore_options_free(options);
  cairn_state_free(s);
  cairn_manager_free(m);
  cairn_group_free(group);
}

/* One memory under two keys, or two elements in one place, are an error of the restore unless
 * both get the same bytes. Nothing is touched. */
static void shared_memory(const char* directory) {
  static const double saved[2][2] = {{1, 2}, {1, 3}};
  static const int64_t strides[] = {0};
  char path[4096], text[8] = "one", other[8] = "two";
  double back[2] = {-1, -1};
  cairn_group* group;
  cairn_manager* m;
  cairn_state* s;
  cairn_vector *v, *w;
  cairn_rows rows;
  int again;
  snprintf(path, sizeof(path), "%s/shared", directory);
  OK(cairn_group_serial(&group));
  OK(cairn_manager_create(group, path, NULL, &m));
  OK(cairn_vector_create(CAIRN_FLOAT64, 0, NULL, &v));
  OK(cairn_vector_create(CAIRN_FLOAT64, 0, NULL, &w));
  OK(cairn_vector_resize(v, 2));
  OK(cairn_vector_resize(w, 3));
  OK(cairn_state_create(&s));
  OK(cairn_state_add_whole(s, "a", CAIRN_FLOAT64, 1, (void*)saved[0], two, NULL));
  OK(cairn_state_add_whole(s, "same", CAIRN_FLOAT64, 1, (void*)saved[0], two, NULL));
  OK(cairn_state_add_whole(s, "other", CAIRN_FLOAT64, 1, (void*)saved[1], two, NULL));
  OK(cairn_state_add_whole(s, "folded", CAIRN_FLOAT64, 1, (void*)saved[1], two, strides));
  OK(cairn_state_add_text(s, "text", text, sizeof(text), -1, '\0'));
  OK(cairn_state_add_text(s, "text2", other, sizeof(other), -1, '\0'));
  rows = cairn_vector_rows(v);
  OK(cairn_state_add_resizable(s, "rows", CAIRN_FLOAT64, 0, NULL, &rows));
  rows = cairn_vector_rows(w);
  OK(cairn_state_add_resizable(s, "rows2", CAIRN_FLOAT64, 0, NULL, &rows));
  OK(cairn_manager_save(m, 1, s, NULL, NULL));
  cairn_state_free(s);
  for (again = 0; again < 2; ++again) {
    OK(cairn_state_create(&s));
    OK(cairn_state_add_whole(s, "a", CAIRN_FLOAT64, 1, back, two, NULL));
    OK(cairn_state_add_whole(s, again ? "other" : "same", CAIRN_FLOAT64, 1, back, two, NULL));
    if (again) {
      FAILS(cairn_manager_restore(m, 1, s, NULL, NULL), CAIRN_INVALID_ARGUMENT,
            "'a' and 'other' are to be restored into the same memory");
    } else {
      OK(cairn_manager_restore(m, 1, s, NULL, NULL));
    }
    CHECK(back[0] == (again ? -1 : 1) && back[1] == (again ? -1 : 2));
    back[0] = back[1] = -1;
    cairn_state_free(s);
  }
  OK(cairn_state_create(&s));
  OK(cairn_state_add_whole(s, "folded", CAIRN_FLOAT64, 1, back, two, strides));
  FAILS(cairn_manager_restore(m, 1, s, NULL, NULL), CAIRN_INVALID_ARGUMENT, "share memory");
  cairn_state_free(s);
  OK(cairn_state_create(&s));
  OK(cairn_state_add_text(s, "text", text, sizeof(text), -1, '\0'));
  OK(cairn_state_add_text(s, "text2", text, sizeof(text), -1, '\0'));
  FAILS(cairn_manager_restore(m, 1, s, NULL, NULL), CAIRN_INVALID_ARGUMENT, "same memory");
  cairn_state_free(s);
  OK(cairn_vector_resize(v, 0)); /* it has no address yet */
  OK(cairn_state_create(&s));
  rows = cairn_vector_rows(v);
  OK(cairn_state_add_resizable(s, "rows", CAIRN_FLOAT64, 0, NULL, &rows));
  OK(cairn_state_add_resizable(s, "rows2", CAIRN_FLOAT64, 0, NULL, &rows));
  FAILS(cairn_manager_restore(m, 1, s, NULL, NULL), CAIRN_INVALID_ARGUMENT, "same memory");
  CHECK(back[0] == -1 && back[1] == -1 && strcmp(text, "one") == 0 && cairn_vector_count(v) == 0);
  cairn_state_free(s);
  cairn_vector_free(v);
  cairn_vector_free(w);
  cairn_manager_free(m);
  cairn_group_free(group);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  what_is_refused_is_not_released();
  states();
  options();
  managers(argv[1]);
  shared_memory(argv[1]);
  what_fails_leaves_the_handle(argv[1]);
  return 0;
}
