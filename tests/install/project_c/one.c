/* A number of steps and a field, saved and brought back by one process.  usage: one DIRECTORY */
#include <cairn.h>
#include <stdio.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, cairn_last_error()->text);
  return 1;
}

int main(int argc, char** argv) {
  int64_t step = 0, shape[] = {4};
  double u[4] = {0};
  cairn_group* group;
  cairn_manager* manager;
  cairn_state* state;
  if (argc != 2) return 2;
  if (cairn_group_serial(&group)) return fail("group");
  if (cairn_manager_create(group, argv[1], NULL, &manager)) return fail("manager");
  if (cairn_state_create(&state)) return fail("state");
  if (cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL)) return fail("step");
  if (cairn_state_add_whole(state, "u", CAIRN_FLOAT64, 1, u, shape, NULL)) return fail("u");
  step = 7;
  u[3] = 0.5;
  if (cairn_manager_save(manager, step, state, NULL, NULL)) return fail("save");
  step = 0;
  u[3] = 0;
  if (cairn_manager_restore_latest(manager, state, NULL, NULL, NULL)) return fail("restore");
  cairn_state_free(state);
  cairn_manager_free(manager);
  cairn_group_free(group);
  if (step != 7 || u[3] < 0.5) return 1;
  puts("one works");
  return 0;
}
