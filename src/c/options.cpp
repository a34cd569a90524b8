#include "cairn/c/options.h"

#include <memory>
#include <utility>

#include "c/callbacks.hpp"
#include "c/handles.hpp"
#include "cairn/application.hpp"
#include "cairn/sharding.hpp"
#include "cairn/state.hpp"
#include "session/option_text.hpp"

using namespace cairn;
using c::call;
using c::given;

struct cairn_migration {
  Migration& migration;
  cairn_state state = {};  // takes the migration's state while the callback runs
};

namespace {

thread_local std::string last_value;

const char* name_text(const char* name) { return &given(name, "the name of an option"); }
const char* value_text(const char* value) { return &given(value, "the value of an option"); }

}  // namespace

int cairn_options_create(cairn_options** options) {
  return call([&] { c::make(options); });
}
void cairn_options_free(cairn_options* options) { delete options; }

int cairn_options_set(cairn_options* options, const char* name, const char* value) {
  return call(
      [&] { set_option(given(options, "options").options, name_text(name), value_text(value)); });
}

int cairn_options_get(const cairn_options* options, const char* name, const char** value) {
  return call([&] {
    auto& answer = given(value, "the address for the value");
    last_value = option_text(given(options, "options").options, name_text(name));
    answer = last_value.c_str();
  });
}

const char* cairn_options_name(size_t index) {
  static const auto names = option_names(ManagerOptions{});
  return index < names.size() ? names[index].c_str() : nullptr;
}

int cairn_options_before_save(cairn_options* options, int (*before)(void* context, int64_t step),
                              void* context) {
  return call([&] {
    auto& hooks = given(options, "options").options.hooks;
    given(before, "the callback");
    hooks.before_save.emplace_back([=](std::int64_t step) {
      c::run_callback("before_save", [&] { return before(context, step); });
    });
  });
}

int cairn_is_newer_version(const char* a, const char* b) {
  return is_newer_version(a ? a : "", b ? b : "");
}

int cairn_migration_set(cairn_migration* migration, const char* name, const char* value) {
  return call([&] {
    set_option(given(migration, "the migration").migration.options, name_text(name),
               value_text(value));
  });
}

cairn_state* cairn_migration_state(cairn_migration* migration) {
  return migration ? &migration->state : nullptr;
}

int cairn_migration_finish(cairn_migration* migration, int (*finish)(void* context),
                           void* context) {
  return call([&] {
    auto& how = given(migration, "the migration").migration;
    given(finish, "the callback");
    how.finish = [=] { c::run_callback("migration_finish", [&] { return finish(context); }); };
  });
}

int cairn_options_migrate(cairn_options* options,
                          int (*migrate)(void* context, const cairn_application* from,
                                         cairn_migration* migration),
                          void* context) {
  return call([&] {
    auto& hooks = given(options, "options").options.hooks;
    given(migrate, "the callback");
    hooks.migrate = [=](const Application& by, Migration& how) {
      const cairn_application from{by.name.c_str(), by.version.c_str(), by.commit.c_str()};
      cairn_migration shown{how};
      std::swap(shown.state.state, how.state);
      c::run_callback("migrate", [&] { return migrate(context, &from, &shown); });
      std::swap(shown.state.state, how.state);
      // By these addresses the restore finds rows that were given twice. They are kept until
      // finish.
      how.finish = [rows =
                        std::make_shared<decltype(shown.state.rows)>(std::move(shown.state.rows)),
                    finish = std::move(how.finish)] {
        if (finish) finish();
      };
    };
  });
}

int cairn_options_max_shard_size(cairn_options* options, int64_t bytes) {
  return call([&] {
    given(options, "options").options.store.policy = std::make_shared<MaxShardSizePolicy>(bytes);
  });
}

int cairn_stop_create(size_t count, const char* const* names, const char* const* values,
                      cairn_stop** stop) {
  return call([&] {
    StopOptions options;
    for (size_t i = 0; i < count; ++i) {
      set_option(options, name_text((&given(names, "names"))[i]),
                 value_text((&given(values, "values"))[i]));
    }
    c::make(stop, std::make_shared<StopRequest>(std::move(options)));
  });
}
void cairn_stop_free(cairn_stop* stop) { delete stop; }
void cairn_stop_request(cairn_stop* stop) {
  if (stop) stop->request->request();
}
int cairn_stop_requested(const cairn_stop* stop) { return stop && stop->request->requested(); }

int cairn_options_stop(cairn_options* options, const cairn_stop* stop) {
  return call([&] {
    given(options, "options").options.when.stop = given(stop, "the stop request").request;
  });
}

int cairn_save_options_create(cairn_save_options** options) {
  return call([&] { c::make(options); });
}
void cairn_save_options_free(cairn_save_options* options) { delete options; }
int cairn_save_options_set(cairn_save_options* options, const char* name, const char* value) {
  return call(
      [&] { set_option(given(options, "options").options, name_text(name), value_text(value)); });
}

int cairn_restore_options_create(cairn_restore_options** options) {
  return call([&] { c::make(options); });
}
void cairn_restore_options_free(cairn_restore_options* options) { delete options; }
int cairn_restore_options_set(cairn_restore_options* options, const char* name, const char* value) {
  return call(
      [&] { set_option(given(options, "options").options, name_text(name), value_text(value)); });
}
