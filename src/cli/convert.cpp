// cairn convert: a checkpoint stored again, cut otherwise or in another format.
#include <iostream>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/progress_bar.hpp"
#include "cli/target.hpp"
#include "tools/convert_checkpoint.hpp"

namespace cairn::cli {
namespace {

struct ConvertArguments {
  std::string source, destination;
  ConvertOptions convert;
};

void run(Tool& tool, const ConvertArguments& options) {
  const auto destination = require_parent(*tool.files, options.destination);
  const auto source = read_contents(*tool.files, resolve_checkpoint(*tool.files, options.source));
  ProgressBar bar("convert");
  std::cout << convert_checkpoint(tool.files, source, destination, options.convert, bar.callback())
            << '\n';
}

}  // namespace

void add_convert(Tool& tool) {
  auto options = std::make_shared<ConvertArguments>();
  auto* command = tool.app.add_subcommand("convert", "Store a checkpoint again, cut otherwise");
  command->add_option("A", options->source, "Checkpoint, or a directory for its newest one")
      ->required();
  command->add_option("B", options->destination, "Prefix of the new one; PREFIX.h5: as HDF5")
      ->required();
  command
      ->add_option("--max-shard-size", options->convert.max_shard_bytes,
                   "Cut slices so that no data file holds more; with a unit if you like (64MiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  command->add_flag("--overwrite", options->convert.overwrite,
                    "Replace what is at B, in either format");
  command->footer(
      "All that is read is checked, and what is written has checksums again; the values are the\n"
      "same bit by bit (cairn diff A B). Step, time, metric and place among other steps go along:\n"
      "what was the newest stays it. Memory: the largest stored slice.\n\n"
      "Examples:\n"
      "  cairn convert run/ckpt export/model\n"
      "  cairn convert run/ckpt/ckpt-100 export/ckpt-100.h5\n"
      "  cairn convert --max-shard-size 256MiB run/ckpt/ckpt-100 export/ckpt-100");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
