/* The tensors of tests/support/tensors.txt in each way to save of tests/support/combinations.txt:
 * what all ranks save, half of them restore, and all again.
 * usage: c_ways DIRECTORY TABLES with|without (libhdf5) [NAME,NAME...: these ways only] */
#include "cairn_mpi.h"
#include "tensors.h"

static MPI_Comm ranks_here;
static int64_t rows_before(int64_t mine) {
  int64_t before = 0;
  int rank;
  MPI_Exscan(&mine, &before, 1, MPI_INT64_T, MPI_SUM, ranks_here);
  MPI_Comm_rank(ranks_here, &rank);
  return rank == 0 ? 0 : before;
}

static void save(const char* directory, const char* tensors, const char* how, char* options_text) {
  cairn_group* group;
  cairn_options* options;
  cairn_manager* manager;
  table t;
  char* next;
  OK(cairn_group_mpi(MPI_COMM_WORLD, &group));
  OK(cairn_options_create(&options));
  OK(cairn_options_set(options, "write.chunk_bytes", "4096"));
  for (next = strtok(options_text, " \n"); next; next = strtok(NULL, " \n")) {
    char* value = strchr(next, '=');
    CHECK(value != NULL);
    *value++ = '\0';
    OK(cairn_options_set(options, next, value));
  }
  OK(cairn_manager_create(group, directory, options, &manager));
  make_saved(&t, tensors, cairn_group_rank(group), cairn_group_size(group), 4);
  if (strcmp(how, "async") == 0) {
    OK(cairn_manager_save_async(manager, 4, t.state, NULL, NULL));
    free_table(&t); /* the copy is made */
    OK(cairn_manager_wait(manager));
  } else {
    OK(cairn_manager_save(manager, 4, t.state, NULL, NULL));
    free_table(&t);
  }
  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_group_free(group);
}

static void restore(MPI_Comm ranks, const char* directory, const char* tensors) {
  cairn_group* group;
  cairn_options* options;
  cairn_manager* manager;
  const cairn_report* report;
  int64_t step;
  table t;
  ranks_here = ranks;
  OK(cairn_group_mpi(ranks, &group));
  OK(cairn_options_create(&options));
  OK(cairn_options_set(options, "read_only", "true"));
  OK(cairn_manager_create(group, directory, options, &manager));
  make_wanted(&t, tensors, cairn_group_rank(group), cairn_group_size(group));
  OK(cairn_manager_restore_latest(manager, t.state, NULL, &step, &report));
  CHECK(step == 4 && report->unused_count == 0);
  check_restored(&t, 4, rows_before);
  free_table(&t);
  cairn_manager_free(manager);
  cairn_options_free(options);
  cairn_group_free(group);
}

/* Whether a list with commas contains this name. */
static int has(const char* list, const char* name) {
  const size_t size = strlen(name);
  for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
    if (strncmp(list, name, size) == 0 && (list[size] == ',' || list[size] == '\0')) return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  char path[4096], line[600];
  FILE* ways;
  int rank, ranks, count = 0;
  MPI_Comm half;
  MPI_Init(&argc, &argv);
  CHECK(argc == 4 || argc == 5);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_split(MPI_COMM_WORLD, rank < ranks / 2 + ranks % 2 ? 0 : MPI_UNDEFINED, rank, &half);
  snprintf(path, sizeof(path), "%s/combinations.txt", argv[2]);
  ways = fopen(path, "r");
  CHECK(ways != NULL);
  while (fgets(line, sizeof(line), ways)) {
    char name[40], needs[40], how[40], directory[4096];
    int used = 0;
    if (line[0] == '#') continue;
    CHECK(sscanf(line, "%39s %39s %39s %n", name, needs, how, &used) == 3);
    if (strstr(needs, "libhdf5") && strcmp(argv[3], "with") != 0) continue;
    if (argc == 5 && !has(argv[4], name)) continue;
    snprintf(directory, sizeof(directory), "%s/%s", argv[1], name);
    snprintf(path, sizeof(path), "%s/tensors.txt", argv[2]);
    save(directory, path, how, line + used);
    if (half != MPI_COMM_NULL) restore(half, directory, path);
    MPI_Barrier(MPI_COMM_WORLD);
    restore(MPI_COMM_WORLD, directory, path);
    ++count;
  }
  fclose(ways);
  CHECK(argc == 5 || count >= 6);
  if (half != MPI_COMM_NULL) MPI_Comm_free(&half);
  if (rank == 0) printf("the C face works on many ranks in %d ways\n", count);
  MPI_Finalize();
  return 0;
}
