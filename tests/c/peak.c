/* What calls of the C face take beyond what the process had just before them: their arrays, and at
 * most 96 MiB. usage: c_peak DIRECTORY; a status of 77: this system does not count it. */
#include <stdint.h>

#include "checks.h"

enum { MIB = 1 << 20, PROMISED = 96 * MIB, MANY = 20000, EACH = 4 };

static int64_t status_bytes(const char* name) {
  char line[256];
  int64_t kib = -1;
  const size_t length = strlen(name);
  FILE* status = fopen("/proc/self/status", "r");
  while (status && kib < 0 && fgets(line, sizeof(line), status)) {
    if (strncmp(line, name, length) == 0 && line[length] == ':') kib = atoll(line + length + 1);
  }
  if (status) fclose(status);
  return kib * 1024;
}

static int forget_peak(void) {
  FILE* file = fopen("/proc/self/clear_refs", "w");
  const int written = file && fputs("5", file) >= 0;
  return file && fclose(file) == 0 && written && status_bytes("VmHWM") > 0;
}

static cairn_manager* manager;
static cairn_state* state;

static void save(void) { OK(cairn_manager_save(manager, 1, state, NULL, NULL)); }
static void save_again(void) { OK(cairn_manager_save(manager, 2, state, NULL, NULL)); }
static void save_behind(int64_t step) {
  cairn_save* handle = NULL;
  OK(cairn_manager_save_async(manager, step, state, NULL, &handle));
  OK(cairn_manager_wait(manager));
  cairn_save_free(handle);
}
static void save_async(void) { save_behind(3); }
static void save_async_again(void) { save_behind(4); }
static void restore(void) { OK(cairn_manager_restore(manager, 4, state, NULL, NULL)); }

static void hold(const char* name, int64_t made, int64_t promised, void (*call)(void)) {
  int64_t before, beyond;
  CHECK(forget_peak());
  before = status_bytes("VmRSS");
  call();
  beyond = status_bytes("VmHWM") - before - made;
  if (getenv("CAIRN_SAY_PEAKS")) fprintf(stderr, "%s: %lld KiB\n", name, (long long)beyond / 1024);
  check_(beyond <= promised, name, __FILE__, __LINE__);
}

static void saves_and_restores(const char* directory, const char* name, int64_t bytes,
                               int64_t promised) {
  char path[4096];
  cairn_group* group;
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  OK(cairn_group_serial(&group));
  OK(cairn_manager_create(group, path, NULL, &manager));
  hold("the first save", 0, promised, save);
  hold("another save", 0, promised, save_again);
  hold("the first save_async", bytes, promised, save_async); /* the pool, which is made once */
  hold("another save_async", 0, promised, save_async_again);
  hold("restore", 0, promised, restore);
  cairn_manager_free(manager);
  cairn_group_free(group);
}

int main(int argc, char** argv) {
  const int large = getenv("CAIRN_LARGE_TESTS") != NULL;
  const int64_t count = (large ? 512 : 256) * (int64_t)MIB / 8, four = EACH;
  int64_t i, many = large ? 5 * MANY : MANY;
  double* values;
  CHECK(argc == 2);
  if (!forget_peak()) return 77;
  values = malloc((size_t)count * sizeof(double));
  CHECK(values != NULL);
  for (i = 0; i < count; ++i) values[i] = 1;
  OK(cairn_state_create(&state));
  OK(cairn_state_add_whole(state, "u", CAIRN_FLOAT64, 1, values, &count, NULL));
  saves_and_restores(argv[1], "large", 8 * count, PROMISED);
  CHECK(values[count - 1] == 1);
  cairn_state_free(state);

  OK(cairn_state_create(&state));
  for (i = 0; i < many; ++i) {
    char key[64];
    snprintf(key, sizeof(key), "layer%d/weight%d", (int)(i / 10), (int)(i % 10));
    OK(cairn_state_add_whole(state, key, CAIRN_FLOAT64, 1, values + EACH * i, &four, NULL));
  }
  /* What the library knows of each tensor takes memory, too. */
  saves_and_restores(argv[1], "small", 8 * EACH * many,
                     3584 * many > PROMISED ? 3584 * many : PROMISED);
  cairn_state_free(state);
  free(values);
  return 0;
}
