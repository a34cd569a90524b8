// Any text as what people write: slices, device tasks, selections, ranges, paths of objects, times,
// and options by name and value.
#include "cairn/box.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/device.hpp"
#include "fuzz/hostile.hpp"
#include "model/object_path.hpp"
#include "session/option_text.hpp"
#include "tools/colours.hpp"
#include "tools/selection.hpp"

using namespace cairn;

namespace {

template <class Call>
bool only_bad_arguments(Call&& call) {
  return fuzz::only(call, Code::invalid_argument);
}

void read_slice(std::string_view text) {
  SliceSpec spec;
  if (!only_bad_arguments([&] { spec = parse_slice_spec(text); })) return;
  if (!spec.unstated && !Box::whole(spec.shape).contains(spec.box)) {
    fuzz::wrong("a slice that leaves its tensor");
  }
  if (!(parse_slice_spec(to_string(spec)) == spec)) fuzz::wrong("a slice is not what it was");
}

void select(std::string_view text) {
  const Dims shape{7, 1, 1000};
  Selection found;
  if (!only_bad_arguments([&] { found = parse_selection(text, shape); })) return;
  if (found.size() != shape.size()) fuzz::wrong("not one an axis");
  if (!Box::whole(shape).contains(bounding_box(found))) fuzz::wrong("outside of the tensor");
  selection_text(found, shape);
}

void set(std::string_view text) {
  const auto at = text.find('=');
  if (at == text.npos) return;
  const auto name = text.substr(0, at), value = text.substr(at + 1);
  ManagerOptions manager;
  SaveOptions save;
  RestoreOptions restore;
  const auto to = [&](auto& options) {  // unsupported: an option that is code
    fuzz::only([&] { set_option(options, name, value); }, Code::invalid_argument,
               Code::unsupported);
  };
  to(manager);
  to(save);
  to(restore);
}

}  // namespace

CAIRN_FUZZ_TARGET(text) {
  read_slice(text);
  only_bad_arguments([&] { parse_device_task(text); });
  select(text);
  for (const bool is_log : {false, true}) {
    only_bad_arguments([&] {
      const auto [low, high] = parse_range(text, is_log);
      if (!(low < high)) fuzz::wrong("a range without width");
    });
  }
  only_bad_arguments([&] { stored_key(parse_object_path(text)); });
  set(text);
}
