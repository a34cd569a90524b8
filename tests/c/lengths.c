/* Tensors with gaps, those whose length the checkpoint decides, and one of each dtype.
 * usage: c_lengths DIRECTORY.  What it leaves there is then looked at by others. */
#include "checks.h"

/* One tensor of each dtype that other programs know, [3, 2]: byte k of an array is 17 k, of a
 * bool its lowest bit. */
typedef struct {
  unsigned char bytes[14][3 * 2 * 16];
} all_dtypes;
static void add_all_dtypes(cairn_state* state, all_dtypes* all, int fill) {
  static const char* const names[] = {"bool",    "int8",    "int16",     "int32",     "int64",
                                      "uint8",   "uint16",  "uint32",    "uint64",    "float16",
                                      "float32", "float64", "complex64", "complex128"};
  const int64_t shape[] = {3, 2};
  size_t i, k;
  for (i = 0; i < 14; ++i) {
    char key[40];
    const cairn_dtype dtype = cairn_dtype_from_name(names[i]);
    const size_t size = 6 * cairn_dtype_size(dtype);
    snprintf(key, sizeof(key), "dtypes/%s", names[i]);
    OK(cairn_state_add_whole(state, key, dtype, 2, all->bytes[i], shape, NULL));
    for (k = 0; k < size; ++k) {
      const unsigned char right = (unsigned char)(17 * k & (i == 0 ? 1 : 255));
      if (fill) all->bytes[i][k] = right;
      CHECK(all->bytes[i][k] == (fill ? right : 0));
    }
  }
}

/* Half of a tensor whose other half no rank has; numbers and strings whose length only the
 * checkpoint knows. */
static void gaps_and_lengths(const char* directory) {
  double half[2] = {1, 2}, all[4], minus = -0.5;
  const int64_t shape[] = {4}, zero[] = {0}, two[] = {2};
  const cairn_patch part = {half, zero, two, NULL}, everything = {all, zero, shape, NULL};
  char path[4096];
  int format, i;
  for (format = 0; format < 2; ++format) {
    static all_dtypes dtypes, none, restored;
    cairn_group* group;
    cairn_options* options;
    cairn_manager* manager;
    cairn_state* state;
    cairn_strings* words;
    cairn_vector* history;
    cairn_rows rows;
    snprintf(path, sizeof(path), "%s/gaps-%d", directory, format);
    OK(cairn_group_serial(&group));
    OK(cairn_options_create(&options));
    OK(cairn_options_set(options, "store.format", format ? "hdf5" : "bundle"));
    if (cairn_manager_create(group, path, options, &manager) == CAIRN_UNSUPPORTED) {
      cairn_options_free(options); /* without libhdf5 */
      cairn_group_free(group);
      break;
    }
    OK(cairn_strings_create(&words));
    OK(cairn_strings_append(words, "one", 3));
    OK(cairn_strings_append(words, "two", 3));
    OK(cairn_vector_create(CAIRN_INT64, 0, NULL, &history));
    OK(cairn_vector_resize(history, 3));
    for (i = 0; i < 3; ++i) ((int64_t*)cairn_vector_data(history))[i] = 7 * i;
    rows = cairn_vector_rows(history);
    OK(cairn_state_create(&state));
    OK(cairn_state_add_sparse(state, "u", CAIRN_FLOAT64, 1, shape, 1, &part, CAIRN_FLOAT64, &minus,
                              CAIRN_FILL_GAPS));
    OK(cairn_state_add_resizable_strings(state, "words", words));
    OK(cairn_state_add_resizable(state, "history", CAIRN_INT64, 0, NULL, &rows));
    memset(&restored, 0, sizeof(restored));
    add_all_dtypes(state, &dtypes, 1);
    FAILS(cairn_state_add_sparse(state, "v", CAIRN_FLOAT64, 1, shape, 1, &part, CAIRN_FLOAT64, NULL,
                                 CAIRN_FILL_GAPS),
          CAIRN_INVALID_ARGUMENT, "the fill value is NULL");
    FAILS(cairn_state_add_sparse(state, "v", CAIRN_FLOAT64, 1, shape, 1, &part, CAIRN_FLOAT64,
                                 &minus, 2),
          CAIRN_INVALID_ARGUMENT, "CAIRN_KEEP_GAPS");
    FAILS(cairn_state_add_sparse(state, "v", CAIRN_INT32, 1, shape, 1, &part, CAIRN_FLOAT64, &minus,
                                 CAIRN_FILL_GAPS),
          CAIRN_INVALID_ARGUMENT, "fill value -0.5");
    OK(cairn_manager_save(manager, 1, state, NULL, NULL));
    cairn_state_free(state);
    cairn_strings_clear(words);
    OK(cairn_vector_resize(history, 0));
    OK(cairn_state_create(&state));
    OK(cairn_state_add_sparse(state, "u", CAIRN_FLOAT64, 1, shape, 1, &everything, CAIRN_FLOAT64,
                              &minus, CAIRN_FILL_GAPS));
    OK(cairn_state_add_resizable_strings(state, "words", words));
    OK(cairn_state_add_resizable(state, "history", CAIRN_INT64, 0, NULL, &rows));
    add_all_dtypes(state, &restored, 0);
    CHECK(memcmp(&restored, &none, sizeof(none)) == 0);
    OK(cairn_manager_restore(manager, 1, state, NULL, NULL));
    CHECK(memcmp(&restored, &dtypes, sizeof(dtypes)) == 0);
    for (i = 0; i < 4; ++i) {
      const double right = i < 2 ? i + 1 : minus;
      CHECK(memcmp(&all[i], &right, sizeof(right)) == 0);
    }
    CHECK(cairn_strings_count(words) == 2 && strcmp(cairn_strings_at(words, 1, NULL), "two") == 0);
    CHECK(cairn_vector_count(history) == 3 && ((int64_t*)cairn_vector_data(history))[2] == 14);
    cairn_state_free(state);
    OK(cairn_state_create(&state)); /* another dtype than is stored */
    OK(cairn_state_add_resizable(state, "u", CAIRN_INT64, 0, NULL, &rows));
    FAILS(cairn_manager_restore(manager, 1, state, NULL, NULL), CAIRN_INVALID_ARGUMENT, "float64");
    CHECK(strcmp(cairn_last_error()->tensor, "u") == 0);
    cairn_state_free(state);
    cairn_strings_free(words);
    cairn_vector_free(history);
    cairn_manager_free(manager);
    cairn_options_free(options);
    cairn_group_free(group);
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  gaps_and_lengths(argv[1]);
  return 0;
}
