// cairn map draws which data file or rank holds which part of a tensor.
#include <ostream>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/slice_map.hpp"

namespace cairn::cli {
namespace {

struct MapArguments {
  std::string target, key, output;
};

void run(Tool& tool, const MapArguments& options) {
  const auto checkpoint = open_named(tool.at(options.target));
  const auto& tensor = require_tensor(*checkpoint, options.key);
  if (!tensor.problem.empty()) {
    throw Error(Code::data_loss, cat("tensor ", shown_key(tensor.key), " cannot be read"),
                tensor.problem, "cairn verify names everything that is damaged.")
        .of_tensor(tensor.key);
  }
  const auto title = cat(checkpoint->prefix, "  ", shown_key(tensor.key));
  const auto image = draw_slices(checkpoint, tensor, title);
  to_output(options.output, [&](std::ostream& out) { out << image; });
}

}  // namespace

void add_map(Tool& tool) {
  auto options = std::make_shared<MapArguments>();
  auto* command = tool.app.add_subcommand("map", "Draw how a tensor is cut into slices");
  command->add_option("PREFIX", options->target, "Checkpoint or directory (its newest)")
      ->required();
  command->add_option("KEY", options->key, "Tensor: key, or variable's path or name")->required();
  command->add_option("--output,-o", options->output, "SVG file instead of standard output");
  command->footer(
      "Draws tensors of 1 to 3 dimensions. Colours are data files, one for each writing rank in\n"
      "rank order; in HDF5, the device tasks that held the slices. With three dimensions,\n"
      "neighbouring first indices that are cut alike share one plane. Gaps are grey. A browser\n"
      "shows box, file and bytes of the slice under the pointer.\n\n"
      "Examples:\n"
      "  cairn map run/ckpt u --output u.svg\n"
      "  cairn map run/ckpt/ckpt-100 layers/0/kernel > kernel.svg");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
