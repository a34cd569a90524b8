// cairn mark records that a checkpoint is good or bad. Works while a job is running.
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "store/commit/names.hpp"
#include "store/directory/marks.hpp"
#include "store/directory/pins.hpp"

namespace cairn::cli {
namespace {

struct MarkArguments {
  std::string directory, name, mark;
  std::int64_t step = 0;
};

void run(Tool& tool, const MarkArguments& options) {
  const auto directory = require_directory(tool.at(options.directory));
  const auto name = options.name.empty() ? find_name(directory, options.step) : options.name;
  commit::check_checkpoint_name(name);
  const auto place = location_of(directory, name);
  constexpr double wait_seconds = 5;
  const auto lock = PinLock::take(directory, wait_seconds);
  const auto entry = find_entry(place, options.step);
  const bool is_bad = options.mark == "bad";
  cairn::add_mark(place, entry, is_bad ? StepMark::bad : StepMark::good);
  const auto prefix = commit::prefix_name(name, options.step);
  if (tool.json) {
    return print_json({{"prefix", (directory / prefix).string()},
                       {"mark", options.mark},
                       {"was_marked_bad", entry.mark == StepMark::bad}});
  }
  print_line(cat(prefix, is_bad ? " is marked bad: a restart takes an older one"
                                : " is marked good: a restart may take it"));
}

}  // namespace

void add_mark(Tool& tool) {
  auto options = std::make_shared<MarkArguments>();
  auto* command = tool.app.add_subcommand("mark", "Say whether a restart may take a checkpoint");
  command->add_option("DIR", options->directory, "Checkpoint directory")->required();
  command->add_option("STEP", options->step, "Its step")->required()->check(whole_number());
  command->add_option("MARK", options->mark, "bad, or good")
      ->required()
      ->check(CLI::IsMember({"bad", "good"}));
  command->add_option("--name", options->name, "NAME of NAME-STEP, if DIR has several");
  add_json(*command, tool);
  command->footer(
      "A restart skips checkpoints marked bad. good undoes this and resets the count of runs\n"
      "that restored the checkpoint and ended without a newer one. A job may save meanwhile.\n"
      "cairn ls shows marks.\n\n"
      "Examples:\n"
      "  cairn mark run/ckpt 1200 bad\n"
      "  cairn mark run/ckpt 1200 good");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
