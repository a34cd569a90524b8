// cairn pin keeps checkpoints from being removed by retention. Works while a job is running.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "store/commit/names.hpp"
#include "store/directory/pins.hpp"

namespace cairn::cli {
namespace {

struct PinArguments {
  std::string directory, name;
  std::int64_t step = 0;
  bool remove = false;
};

Json json_of(const Address& prefix, bool is_pinned, bool was_pinned) {
  return {{"prefix", prefix.string()}, {"pinned", is_pinned}, {"was_pinned", was_pinned}};
}

void run(Tool& tool, const PinArguments& options) {
  const auto directory = require_directory(tool.at(options.directory));
  const auto name = options.name.empty() ? find_name(directory, options.step) : options.name;
  commit::check_checkpoint_name(name);
  const auto prefix = commit::prefix_name(name, options.step);
  const auto place = location_of(directory, name);
  constexpr double wait_seconds = 5;
  const auto lock = PinLock::take(directory, wait_seconds);
  if (options.remove) {
    const bool was = remove_pin(place, options.step);
    if (tool.json) return print_json(json_of(directory / prefix, false, was));
    print_line(cat(prefix, was ? " is no longer pinned" : " was not pinned"));
    return;
  }
  const auto entry = find_entry(place, options.step);
  const bool was = entry.pin != Pin::none;
  cairn::add_pin(place, entry);
  if (tool.json) return print_json(json_of(directory / prefix, true, was));
  print_line(cat(prefix, " is pinned"));
}

}  // namespace

void add_pin(Tool& tool) {
  auto options = std::make_shared<PinArguments>();
  auto* command = tool.app.add_subcommand("pin", "Keep a checkpoint until it is unpinned");
  command->add_option("DIR", options->directory, "Checkpoint directory")->required();
  command->add_option("STEP", options->step, "Its step")->required()->check(whole_number());
  command->add_option("--name", options->name, "NAME of NAME-STEP, if DIR has several");
  command->add_flag("--remove", options->remove, "Unpin it");
  add_json(*command, tool);
  command->footer(
      "A pinned checkpoint is neither removed nor saved over. A job may save meanwhile. cairn\n"
      "ls shows pins.\n\n"
      "Examples:\n"
      "  cairn pin run/ckpt 1200\n"
      "  cairn pin run/ckpt 1200 --remove");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
