// cairn merge joins several checkpoints into one.

#include "cairn/bundle.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::cli {
namespace {

struct MergeArguments {
  std::string destination;
  std::vector<std::string> parts;
  MergeOptions merge;
};

void run(Tool& tool, MergeArguments& options) {
  options.merge.file_system = tool.here.files();
  commit::require_path(options.destination);
  const auto destination = require_parent(tool.at(options.destination)).path();
  merge_checkpoints({options.parts.begin(), options.parts.end()}, destination, options.merge);
  if (tool.json) return print_json({{"made", options.destination}});
  print_line(options.destination);
}

}  // namespace

void add_merge(Tool& tool) {
  auto options = std::make_shared<MergeArguments>();
  auto* command = tool.app.add_subcommand("merge", "Make one checkpoint out of several parts");
  command->add_option("DESTINATION", options->destination, "Prefix of the result")->required();
  command->add_option("PART", options->parts, "Prefixes of the parts")->required();
  command->add_flag("--remove-parts", options->merge.remove_inputs,
                    "Remove the parts afterwards, and emptied directories");
  command->add_flag("--allow-missing", options->merge.allow_missing, "Skip missing parts");
  command->add_flag("--overwrite", options->merge.overwrite, "Replace what is at DESTINATION");
  add_json(*command, tool);
  command->footer(
      "Data files are linked if possible, else copied. A crash leaves the parts or the whole\n"
      "result.\n\n"
      "Examples:\n"
      "  cairn merge run/export run/weights run/optimizer\n"
      "  cairn merge --remove-parts run/model run/part-0 run/part-1");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
