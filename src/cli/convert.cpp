// cairn convert: a checkpoint stored again, cut otherwise or in another format, and files of
// others.
#include <iostream>

#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/progress_bar.hpp"
#include "cli/target.hpp"
#include "io/local_path.hpp"
#include "tools/convert_checkpoint.hpp"
#include "tools/dcp_import.hpp"
#include "tools/safetensors.hpp"
#include "tools/zarr_export.hpp"

namespace cairn::cli {
namespace {

struct ConvertArguments {
  std::string source, destination, under;
  ConvertOptions convert;
};

[[noreturn]] void refuse_copy() {
  throw Error(Code::unsupported, "both are files of others", "",
              "Make a checkpoint of A first, and B of that.");
}

void run(Tool& tool, const ConvertArguments& options) {
  const auto destination = require_parent(*tool.files, options.destination);
  ProgressBar bar("convert");
  const auto done = bar.callback();
  const auto to_safetensors = is_safetensors(destination), to_zarr = is_zarr(destination);
  if (is_safetensors(options.source)) {
    if (to_safetensors || to_zarr) refuse_copy();
    const auto source = io::local_path(options.source);
    std::cout << import_safetensors(tool.files, source, destination, options.under, options.convert,
                                    done)
              << '\n';
    return;
  }
  if (const auto source = io::local_path(options.source); is_dcp(*tool.files, source)) {
    if (to_safetensors || to_zarr) refuse_copy();
    std::cout << import_dcp(tool.files, source, destination, options.under, options.convert, done)
              << '\n';
    return;
  }
  const auto source = read_contents(*tool.files, resolve_checkpoint(*tool.files, options.source));
  if (to_safetensors) {
    std::cout << export_safetensors(tool.files, source, destination, options.under, options.convert,
                                    done)
              << '\n';
    return;
  }
  if (to_zarr) {
    std::cout << export_zarr(tool.files, source, destination, options.under, options.convert, done)
              << '\n';
    return;
  }
  if (!options.under.empty()) {
    throw Error(Code::invalid_argument, "--under is for files of others",
                "of checkpoints all tensors are converted", "Leave it out.");
  }
  std::cout << convert_checkpoint(tool.files, source, destination, options.convert, done) << '\n';
}

}  // namespace

void add_convert(Tool& tool) {
  auto options = std::make_shared<ConvertArguments>();
  auto* command = tool.app.add_subcommand("convert", "Store a checkpoint again, cut otherwise");
  command
      ->add_option(
          "A", options->source,
          "Checkpoint, or a directory for its newest one; FILE.safetensors, or its .index.json; a "
          "directory of torch's DCP")
      ->required();
  command
      ->add_option("B", options->destination,
                   "Prefix of the new one; PREFIX.h5: as HDF5; FILE.safetensors: as safetensors; "
                   "NAME.zarr: as Zarr 3")
      ->required();
  command
      ->add_option("--max-shard-size", options->convert.max_shard_bytes,
                   "Cut slices so that no data file holds more; with a unit if you like (64MiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  command->add_flag("--overwrite", options->convert.overwrite,
                    "Replace what is at B, in either format");
  command->add_option("--under", options->under,
                      "To safetensors and Zarr: only keys PATH/KEY, as KEY; from files of others: "
                      "KEY becomes PATH/KEY");
  command->footer(
      "All that is read is checked, and what is written has checksums again; the values are the\n"
      "same bit by bit (cairn diff A B). Step, time, metric and place among other steps go along:\n"
      "what was the newest stays it. Memory: the largest stored slice; to safetensors: the "
      "largest\n"
      "tensor. Files of safetensors have no checksums: what is read from them cannot be proved, "
      "only\n"
      "that their headers are sound. With --max-shard-size they are several, and an index. Of DCP\n"
      "no pickle is run: objects stay bytes, which dcp.load reads through cairn.torch. A "
      "directory\n"
      "of Zarr has chunks of 16 MiB, or of --max-shard-size, and is never replaced.\n\n"
      "Examples:\n"
      "  cairn convert run/ckpt export/model\n"
      "  cairn convert run/ckpt/ckpt-100 export/ckpt-100.h5\n"
      "  cairn convert --max-shard-size 256MiB run/ckpt/ckpt-100 export/ckpt-100\n"
      "  cairn convert run/ckpt export/model.safetensors --under model\n"
      "  cairn convert hub/model.safetensors.index.json start/ckpt-0 --under model\n"
      "  cairn convert dcp/step-100 run/ckpt-100\n"
      "  cairn convert run/ckpt export/fields.zarr");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
