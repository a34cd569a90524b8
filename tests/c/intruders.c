/* Calls of a manager that are forbidden.  usage: c_intruders DIRECTORY */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

/* A second thread in the middle of a save, and a forked process, each get an error; the save and
 * the directory are not affected. */
typedef struct {
  cairn_manager* manager;
  cairn_state* state;
  int64_t step;
  int thread_code;
} intrusion;
static void* second_thread(void* given) {
  intrusion* one = given;
  one->thread_code = cairn_manager_save(one->manager, one->step, one->state, NULL, NULL);
  if (one->thread_code == CAIRN_BUSY) {
    CHECK(strstr(cairn_last_error()->text, "another thread") != NULL);
  }
  return NULL;
}
static void run_second_thread(intrusion* one) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, second_thread, one) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}
static int in_the_middle(void* given, int64_t step) {
  if (step == 1) run_second_thread(given);
  return CAIRN_OK;
}
static int is_owned(const char* path) {
  cairn_group* group;
  cairn_options* options;
  cairn_manager* manager;
  int code;
  OK(cairn_group_serial(&group));
  OK(cairn_options_create(&options));
  OK(cairn_options_set(options, "write.owner_wait_seconds", "0"));
  code = cairn_manager_create(group, path, options, &manager);
  cairn_options_free(options);
  cairn_group_free(group);
  return code == CAIRN_BUSY;
}
static void threads_and_processes(const char* directory) {
  char path[4096];
  static double large[1 << 19]; /* so that its save is still on its way when the process forks */
  const int64_t shape[] = {1 << 19};
  cairn_group* group;
  cairn_options* options;
  pid_t child;
  int status;
  size_t count;
  const cairn_step_info* const* infos;
  intrusion one = {NULL, NULL, 8, 0};
  snprintf(path, sizeof(path), "%s/threads", directory);
  OK(cairn_group_serial(&group));
  OK(cairn_options_create(&options));
  OK(cairn_options_before_save(options, in_the_middle, &one));
  OK(cairn_manager_create(group, path, options, &one.manager));
  OK(cairn_state_create(&one.state));
  OK(cairn_state_add_whole(one.state, "x", CAIRN_FLOAT64, 1, large, shape, NULL));
  OK(cairn_manager_save(one.manager, 1, one.state, NULL, NULL));
  CHECK(one.thread_code == CAIRN_BUSY);
  one.step = 2; /* one thread after the other is well */
  run_second_thread(&one);
  CHECK(one.thread_code == CAIRN_OK);
  OK(cairn_manager_save_async(one.manager, 3, one.state, NULL, NULL));
  fflush(stdout);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const int code = cairn_manager_save(one.manager, 4, one.state, NULL, NULL);
    const int known = strstr(cairn_last_error()->text, "forked") != NULL;
    cairn_state_free(one.state);
    cairn_manager_free(one.manager); /* the directory stays the parent's */
    cairn_group_free(group);
    cairn_options_free(options);
    fflush(stdout);
    /* _exit() and not exit(): memory that threads of the parent held looks like leaks in a child
     * without them. */
    _exit(code == CAIRN_INVALID_ARGUMENT && known ? 7 : 8);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  child = fork(); /* somebody else, who looks whether the directory is free */
  CHECK(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", "c_intruders", path, "owned", (char*)NULL);
    exit(9);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  OK(cairn_manager_save(one.manager, 5, one.state, NULL, NULL));
  OK(cairn_manager_steps(one.manager, &count, &infos));
  CHECK(count == 4 && infos[3]->step == 5);
  cairn_state_free(one.state);
  cairn_manager_free(one.manager);
  cairn_options_free(options);
  cairn_group_free(group);
}

/* A save from inside a callback of a save, and a restore, fail like those from another thread. */
typedef struct {
  cairn_manager* manager;
  cairn_state* state;
  int calls;
} nested;
static int call_again(void* given, int64_t step) {
  nested* one = given;
  ++one->calls;
  FAILS(cairn_manager_save(one->manager, step + 100, one->state, NULL, NULL), CAIRN_BUSY,
        "from inside a callback of cairn_manager_save");
  FAILS(cairn_manager_save_async(one->manager, step + 100, one->state, NULL, NULL), CAIRN_BUSY,
        "from inside a callback");
  FAILS(cairn_manager_restore(one->manager, 1, one->state, NULL, NULL), CAIRN_BUSY,
        "from inside a callback");
  FAILS(cairn_manager_wait(one->manager), CAIRN_BUSY, "from inside a callback");
  return CAIRN_OK;
}
static void calls_from_inside(const char* directory) {
  char path[4096];
  double x = 1;
  size_t count;
  const cairn_step_info* const* infos;
  cairn_group* group;
  cairn_options* options;
  nested one = {NULL, NULL, 0};
  snprintf(path, sizeof(path), "%s/inside", directory);
  OK(cairn_group_serial(&group));
  OK(cairn_options_create(&options));
  OK(cairn_options_before_save(options, call_again, &one));
  OK(cairn_manager_create(group, path, options, &one.manager));
  OK(cairn_state_create(&one.state));
  OK(cairn_state_add_whole(one.state, "x", CAIRN_FLOAT64, 0, &x, NULL, NULL));
  OK(cairn_manager_save(one.manager, 1, one.state, NULL, NULL));
  OK(cairn_manager_save_async(one.manager, 2, one.state, NULL, NULL));
  OK(cairn_manager_wait(one.manager));
  OK(cairn_manager_restore(one.manager, 1, one.state, NULL, NULL));
  CHECK(one.calls == 2);
  OK(cairn_manager_steps(one.manager, &count, &infos));
  CHECK(count == 2 && infos[1]->step == 2);
  cairn_state_free(one.state);
  cairn_manager_free(one.manager);
  cairn_options_free(options);
  cairn_group_free(group);
}

/* An asynchronous save fails: a wait for it returns the error, and so does the next save, which
 * is not made. */
static void directory_that_goes_away(const char* directory) {
  double x = 1;
  char path[4096], command[5000];
  int64_t step;
  cairn_group* group;
  cairn_manager* manager;
  cairn_state* state;
  cairn_save* save;
  snprintf(path, sizeof(path), "%s/away", directory);
  snprintf(command, sizeof(command), "rm -rf '%s'", path);
  OK(cairn_group_serial(&group));
  OK(cairn_manager_create(group, path, NULL, &manager));
  OK(cairn_state_create(&state));
  OK(cairn_state_add_whole(state, "x", CAIRN_FLOAT64, 0, &x, NULL, NULL));
  for (step = 1; step <= 3; ++step) {
    OK(cairn_manager_save_async(manager, step, state, NULL, NULL));
    OK(cairn_manager_wait(manager));
  }
  CHECK(system(command) == 0);
  OK(cairn_manager_save_async(manager, 4, state, NULL, &save));
  FAILS(cairn_save_wait_written(save), CAIRN_NOT_FOUND, "the checkpoint directory was removed");
  FAILS(cairn_save_error(save), CAIRN_NOT_FOUND, "the checkpoint directory was removed");
  FAILS(cairn_manager_save_async(manager, 5, state, NULL, NULL), CAIRN_NOT_FOUND,
        "step 5 was not saved: the save of step 4 failed: the checkpoint directory was removed");
  CHECK(strstr(cairn_last_error()->path, path) != NULL);
  CHECK(cairn_save_stage(save) == CAIRN_FAILED);
  FAILS(cairn_manager_save(manager, 6, state, NULL, NULL), CAIRN_NOT_FOUND, "Open a new manager");
  cairn_save_free(save);
  cairn_manager_free(manager);
  OK(cairn_manager_create(group, path, NULL, &manager));
  OK(cairn_manager_save(manager, 6, state, NULL, NULL));
  cairn_manager_free(manager);
  cairn_state_free(state);
  cairn_group_free(group);
}

int main(int argc, char** argv) {
  if (argc == 3) return is_owned(argv[1]) ? 7 : 8;
  if (argc != 2) return 2;
  threads_and_processes(argv[1]);
  calls_from_inside(argv[1]);
  directory_that_goes_away(argv[1]);
  return 0;
}
