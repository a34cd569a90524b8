/* Checkpoints of other versions of a program, by the C interface: three versions of one toy,
 * each of which reads the older ones. */
#include "checks.h"

/* The first version has a temperature in degrees Celsius, as float; the second in kelvin; the third
 * a pressure, too. */
typedef struct toy {
  int version;
  float celsius[3], old[3];
  double kelvin[3], pressure[3];
  int calls;
  int from;        /* the version that saved */
  const char* way; /* of the migration */
  cairn_group* group;
  cairn_state* state;
  cairn_manager* manager;
} toy;
static const int64_t shape[] = {3};
static const float full[] = {0.5f, 20.0f, -40.0f};

static int finish(void* context) {
  toy* its = context;
  const int by_hand = strcmp(its->way, "by hand") == 0;
  int i;
  if (strcmp(its->way, "end fails") == 0) return 99;
  for (i = 0; i < 3; ++i) {
    if (its->from == 1) its->kelvin[i] = (by_hand ? its->old[i] : its->kelvin[i]) + 273.15;
    if (its->version == 3) its->pressure[i] = 1013.25;
  }
  return CAIRN_OK;
}

static int migrate(void* context, const cairn_application* from, cairn_migration* how) {
  toy* its = context;
  ++its->calls;
  its->from = atoi(from->version);
  CHECK(strcmp(from->name, "toy") == 0 && strcmp(from->commit, "abc") == 0);
  CHECK(!cairn_is_newer_version("2", "10") && cairn_is_newer_version("1.10", "1.9"));
  if (strcmp(its->way, "fails") == 0) return 99;
  if (strcmp(its->way, "says why") == 0) {
    cairn_set_error(CAIRN_UNSUPPORTED, "no way from there", NULL, NULL);
    return CAIRN_UNSUPPORTED;
  }
  if (its->from == 1 && strcmp(its->way, "by hand") == 0) {
    OK(cairn_state_add_whole(cairn_migration_state(how), "old", CAIRN_FLOAT32, 1, its->old, shape,
                             NULL));
    OK(cairn_migration_set(how, "rename.old", "celsius"));
    OK(cairn_migration_set(how, "may_be_missing.kelvin", "true"));
  } else if (its->from == 1) {
    OK(cairn_migration_set(how, "rename.kelvin", "celsius"));
    OK(cairn_migration_set(how, "convert_keys.kelvin", "exact"));
  }
  if (its->version == 3) OK(cairn_migration_set(how, "may_be_missing.pressure", "true"));
  FAILS(cairn_migration_set(how, "renames.kelvin", "x"), CAIRN_INVALID_ARGUMENT, "rename");
  FAILS(cairn_migration_set(how, NULL, "x"), CAIRN_INVALID_ARGUMENT, "NULL");
  FAILS(cairn_migration_finish(how, NULL, NULL), CAIRN_INVALID_ARGUMENT, "callback");
  OK(cairn_migration_finish(how, finish, its));
  return CAIRN_OK;
}

static void begin(toy* its, const char* directory, int version, const char* way) {
  cairn_options* options;
  char text[] = {(char)('0' + version), 0};
  int i;
  its->version = version, its->way = way, its->calls = 0, its->from = 0;
  for (i = 0; i < 3; ++i) its->celsius[i] = 0, its->kelvin[i] = 0, its->pressure[i] = -1;
  OK(cairn_group_serial(&its->group));
  OK(cairn_state_create(&its->state));
  if (version == 1) {
    OK(cairn_state_add_whole(its->state, "celsius", CAIRN_FLOAT32, 1, its->celsius, shape, NULL));
  } else {
    OK(cairn_state_add_whole(its->state, "kelvin", CAIRN_FLOAT64, 1, its->kelvin, shape, NULL));
  }
  if (version == 3) {
    OK(cairn_state_add_whole(its->state, "pressure", CAIRN_FLOAT64, 1, its->pressure, shape, NULL));
  }
  OK(cairn_options_create(&options));
  OK(cairn_options_set(options, "keep.last", "0"));
  OK(cairn_options_set(options, "store.application.name", "toy"));
  OK(cairn_options_set(options, "store.application.version", text));
  OK(cairn_options_set(options, "store.application.commit", "abc"));
  FAILS(cairn_options_migrate(options, NULL, NULL), CAIRN_INVALID_ARGUMENT, "callback");
  OK(cairn_options_migrate(options, migrate, its));
  OK(cairn_manager_create(its->group, directory, options, &its->manager));
  cairn_options_free(options);
}
static void end(toy* its) {
  cairn_manager_free(its->manager);
  cairn_state_free(its->state);
  cairn_group_free(its->group);
}

static void save(const char* directory, int version) {
  toy its;
  int i;
  begin(&its, directory, version, "");
  for (i = 0; i < 3; ++i) {
    its.celsius[i] = full[i], its.kelvin[i] = full[i] + 273.15, its.pressure[i] = i;
  }
  OK(cairn_manager_save(its.manager, version, its.state, NULL, NULL));
  end(&its);
}

static void restore(const char* directory, int saved, int version, const char* way) {
  const double none[] = {0, 0, 0};
  const cairn_report* report;
  toy its;
  int i;
  begin(&its, directory, version, way);
  if (strcmp(way, "fails") == 0) {
    FAILS(cairn_manager_restore(its.manager, saved, its.state, NULL, NULL), CAIRN_APPLICATION,
          "cairn_options_migrate(): the callback 'migrate' of the program failed (it returned 99)");
  } else if (strcmp(way, "says why") == 0) {
    FAILS(cairn_manager_restore(its.manager, saved, its.state, NULL, NULL), CAIRN_UNSUPPORTED,
          "no way from there");
  } else if (strcmp(way, "end fails") == 0) {
    FAILS(cairn_manager_restore(its.manager, saved, its.state, NULL, NULL), CAIRN_APPLICATION,
          "the callback 'migration_finish' of the program failed (it returned 99)");
  } else if (saved > version) {
    FAILS(cairn_manager_restore(its.manager, saved, its.state, NULL, NULL), CAIRN_INVALID_ARGUMENT,
          "newer than this one, toy");
    CHECK(its.calls == 0);
  } else {
    OK(cairn_manager_restore(its.manager, saved, its.state, NULL, &report));
    CHECK(its.calls == (saved < version) && its.from == (saved < version ? saved : 0));
    for (i = 0; i < 3; ++i) {
      const double kelvin = full[i] + 273.15, pressure = saved == 3 ? i : 1013.25;
      CHECK(memcmp(&its.kelvin[i], &kelvin, sizeof(kelvin)) == 0);
      CHECK(version < 3 || memcmp(&its.pressure[i], &pressure, sizeof(pressure)) == 0);
    }
  }
  if (strcmp(way, "fails") == 0 || strcmp(way, "says why") == 0 || saved > version) {
    CHECK(memcmp(its.kelvin, none, sizeof(none)) == 0);
  }
  end(&its);
}

int main(int argc, char** argv) {
  int saved, version;
  if (argc != 2) return 2;
  for (version = 1; version <= 3; ++version) save(argv[1], version);
  for (saved = 1; saved <= 3; ++saved) {
    for (version = 1; version <= 3; ++version) {
      if (version > 1 || saved > 1) restore(argv[1], saved, version, "");
    }
  }
  restore(argv[1], 1, 2, "by hand");
  restore(argv[1], 1, 3, "by hand");
  restore(argv[1], 1, 2, "fails");
  restore(argv[1], 1, 2, "says why");
  restore(argv[1], 1, 3, "end fails");
  CHECK(cairn_migration_state(NULL) == NULL);
  return 0;
}
