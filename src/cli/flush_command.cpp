// cairn flush copies what this node has of checkpoints on nodes to the run's directory.

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "store/nodes/flush_node.hpp"

namespace cairn::cli {
namespace {

struct FlushArguments {
  std::string directory, tier, node;
};

void run(Tool& tool, const FlushArguments& options) {
  const auto home = require_directory(tool.at(options.directory));
  const auto done = flush_node(home, options.tier, options.node);
  if (tool.json) {
    Json without_map = Json::array();
    for (const auto& folder : done.without_map) without_map.push_back(folder.string());
    return print_json({{"directory", home.string()},
                       {"steps", done.steps},
                       {"without_map", std::move(without_map)},
                       {"files", done.files},
                       {"bytes", done.bytes}});
  }
  for (const auto step : done.steps) print_line(cat("step ", step));
  for (const auto& folder : done.without_map) {
    print_line(
        cat(folder.string(), ": its map cannot be read here; brought for other nodes' maps"));
  }
  print_line(cat(done.files, " files, ", done.bytes, " bytes brought to ", home.string()));
}

}  // namespace

void add_flush(Tool& tool) {
  auto options = std::make_shared<FlushArguments>();
  auto* command =
      tool.app.add_subcommand("flush", "Copy this node's checkpoint files to the run's directory");
  command->add_option("DIR", options->directory, "Checkpoint directory")->required();
  command->add_option("--tier", options->tier, "Directory of the nodes (the job's tier)")
      ->required();
  command->add_option("--node", options->node, "This node's name in the job (CAIRN_NODE)");
  add_json(*command, tool);
  command->footer(
      "Run one process on each node before the job ends, as many sites then empty the nodes.\n"
      "The next job that opens DIR with a tier restores from the copies, computes what lost\n"
      "nodes had, and makes a checkpoint. cairn-job --tier copies by itself.\n\n"
      "Example:\n"
      "  srun --ntasks-per-node=1 cairn flush run/ckpt --tier /dev/shm/$USER/cairn");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
