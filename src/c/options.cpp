#include "cairn/c/options.h"

#include "c/callbacks.hpp"
#include "c/handles.hpp"
#include "cairn/sharding.hpp"
#include "session/option_text.hpp"

using namespace cairn;
using c::call;
using c::given;

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
