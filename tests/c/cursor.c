/* A cursor: where a job is in its data. */
#include <stdlib.h>

#include "checks.h"

static void job(cairn_manager* manager, int64_t samples, int64_t* used, int batches) {
  int64_t taken[7], count, step = 0;
  cairn_cursor* cursor;
  cairn_state* state;
  OK(cairn_cursor_create(samples, 5, 1, 0, 1, &cursor));
  OK(cairn_state_create(&state));
  OK(cairn_state_add_whole(state, "step", CAIRN_INT64, 0, &step, NULL, NULL));
  OK(cairn_state_add_cursor(state, "data", cursor));
  OK(cairn_manager_restore_latest(manager, state, NULL, NULL, NULL));
  for (int i = 0; i < batches && cairn_cursor_left(cursor) > 0; ++i) {
    OK(cairn_cursor_take(cursor, 7, taken, &count));
    for (int64_t k = 0; k < count; ++k) ++used[taken[k]];
    OK(cairn_cursor_done(cursor, count));
  }
  OK(cairn_cursor_take(cursor, 3, taken, &count)); /* drawn ahead, and lost */
  CHECK(cairn_cursor_waiting(cursor) == count);
  step += 1;
  OK(cairn_manager_save(manager, step, state, NULL, NULL));
  cairn_cursor_free(cursor); /* the state keeps what it needs */
  step += 1;
  OK(cairn_manager_save(manager, step, state, NULL, NULL));
  cairn_state_free(state);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int64_t used[50] = {0}, batches = 0, count = 0;
  cairn_group* group;
  cairn_manager* manager;
  OK(cairn_group_serial(&group));
  OK(cairn_manager_create(group, argv[1], NULL, &manager));
  for (int i = 0; i < 4; ++i) job(manager, 50, used, 3);
  for (int i = 0; i < 50; ++i) CHECK(used[i] == 1);

  cairn_cursor* cursor = NULL;
  FAILS(cairn_cursor_create(0, 0, 0, 0, 1, &cursor), CAIRN_INVALID_ARGUMENT,
        "a cursor has 0 samples");
  FAILS(cairn_cursor_create(5, 0, 0, 0, 1, NULL), CAIRN_INVALID_ARGUMENT,
        "the address for the result");
  OK(cairn_cursor_create(5, 0, 0, 1, 2, &cursor));
  CHECK(cairn_cursor_share(cursor) == 2 && cairn_cursor_epoch(cursor) == 0);
  OK(cairn_cursor_batches(cursor, 2, &batches));
  CHECK(batches == 2);
  OK(cairn_cursor_take(cursor, 5, used, &count));
  CHECK(count == 2 && used[0] == 3 && used[1] == 4);
  OK(cairn_cursor_rewind(cursor));
  CHECK(cairn_cursor_left(cursor) == 2);
  OK(cairn_cursor_next_epoch(cursor));
  CHECK(cairn_cursor_epoch(cursor) == 1 && cairn_cursor_epoch(NULL) == -1);
  FAILS(cairn_cursor_done(cursor, 1), CAIRN_INVALID_ARGUMENT, "were taken that are not done yet");
  FAILS(cairn_cursor_take(cursor, 1, NULL, &count), CAIRN_INVALID_ARGUMENT,
        "the array for samples");
  FAILS(cairn_cursor_next_epoch(NULL), CAIRN_INVALID_ARGUMENT, "the cursor is NULL");
  FAILS(cairn_state_add_cursor(NULL, "data", cursor), CAIRN_INVALID_ARGUMENT, "the state is NULL");
  cairn_cursor_free(cursor);
  cairn_manager_free(manager);
  cairn_group_free(group);
  return 0;
}
