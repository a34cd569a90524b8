/* The C face by one process that goes on from what another one has left: what is due then, and what
 * is said of a save that nobody has waited for. */
#include "checks.h"

/* A loop that asks before it computes, twice: the second goes on from the checkpoint that the
 * first left. */
static void loop_that_asks_at_its_top(const char* directory, const char* option, const char* value,
                                      int stops) {
  static const char* const names[] = {"time_limit", "signals"};
  static const char* const values[] = {"false", ""};
  const cairn_stop_reason* reason = NULL;
  char path[4096];
  int64_t step = 1, restored;
  int turn, yes;
  cairn_group* group;
  cairn_options* options;
  cairn_state* state;
  snprintf(path, sizeof(path), "%s/loop-%s-%d", directory, option, stops);
  OK(cairn_group_serial(&group));
  OK(cairn_state_create(&state));
  OK(cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL));
  OK(cairn_options_create(&options));
  OK(cairn_options_set(options, option, value));
  for (turn = 0; turn < 2; ++turn) {
    cairn_manager* manager;
    cairn_stop* stop;
    OK(cairn_stop_create(2, names, values, &stop));
    OK(cairn_options_stop(options, stop));
    OK(cairn_manager_create(group, path, options, &manager));
    OK(cairn_manager_restore_latest(manager, state, NULL, &restored, NULL));
    CHECK(turn == 0 ? restored == -1 : restored > 1 && restored == step);
    if (stops) cairn_stop_request(stop);
    for (reason = NULL; step < 7 * (turn + 1) && reason == NULL; ++step) {
      OK(cairn_manager_should_save(manager, step, &yes));
      CHECK(!yes || step != restored);
      if (yes) OK(cairn_manager_save(manager, step, state, NULL, NULL));
      OK(cairn_manager_should_stop(manager, &reason));
    }
    CHECK(stops == (reason != NULL));
    cairn_manager_free(manager);
    cairn_stop_free(stop);
  }
  cairn_options_free(options);
  cairn_state_free(state);
  cairn_group_free(group);
}

static void tell(void* context, int level, const char* message) {
  (void)context;
  if (level != CAIRN_LOG_INFO) printf("%d: %s\n", level, message);
}
/* A job that ends while a save is pending (tests/support/last_save.sh). */
static void last_save(const char* directory) {
  static double u[1 << 19];
  static const int64_t shape[] = {1 << 19};
  int64_t step = -1;
  cairn_group* group;
  cairn_manager* manager;
  cairn_state* state;
  cairn_set_log(tell, NULL);
  OK(cairn_group_serial(&group));
  OK(cairn_manager_create(group, directory, NULL, &manager));
  OK(cairn_state_create(&state));
  OK(cairn_state_add_whole(state, "u", CAIRN_FLOAT64, 1, u, shape, NULL));
  OK(cairn_manager_restore_latest(manager, state, NULL, &step, NULL));
  printf("restored %ld\n", (long)step);
  OK(cairn_manager_save_async(manager, step + 2, state, NULL, NULL));
  cairn_state_free(state);
  cairn_manager_free(manager);
  cairn_group_free(group);
}

int main(int argc, char** argv) {
  if (argc == 3) {
    last_save(argv[1]);
    return 0;
  }
  if (argc != 2) return 2;
  loop_that_asks_at_its_top(argv[1], "when.interval.steps", "5", 0);
  loop_that_asks_at_its_top(argv[1], "when.interval.steps", "5", 1);
  loop_that_asks_at_its_top(argv[1], "when.interval.seconds", "1e-9", 0);
  loop_that_asks_at_its_top(argv[1], "when.interval.optimal_for", "1e-9", 1);
  return 0;
}
