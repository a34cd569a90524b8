// cairn convert stores a checkpoint again, in other pieces or in another format. It converts files
// of other programs, too.
#include <algorithm>
#include <optional>

#include "base/error_of.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/progress_bar.hpp"
#include "cli/ranks.hpp"
#include "cli/target.hpp"
#include "io/local_path.hpp"
#include "store/commit/names.hpp"
#include "store/contents/whose.hpp"
#include "store/directory/catalog.hpp"
#include "tools/convert_checkpoint.hpp"
#include "tools/dcp_import.hpp"
#include "tools/safetensors.hpp"
#include "tools/zarr_export.hpp"

namespace cairn::cli {
namespace {

struct ConvertArguments {
  std::string source, destination, under, codec = "none";
  bool alone = false;
  ConvertOptions convert;
};

[[noreturn]] void refuse_copy() {
  throw Error(Code::unsupported, "both are files of others", "",
              "Make a checkpoint of A first, and B of that.");
}

void require_no_codec(const ConvertOptions& options) {
  if (options.codec == StoreCodec::none) return;
  throw Error(Code::invalid_argument, "--codec is for HDF5",
              "others' files are written as their programs expect them",
              "Leave it out, or make PREFIX.h5.");
}

void require_directory_of(const Address& others) {
  if (!step_list_of(*others.files())) return;
  throw Error(Code::unsupported, cat(others.string(), " cannot be written"),
              "files of others are written out of order, which an object store cannot do",
              "Convert to a directory, and upload what it holds.")
      .at(others.string());
}

std::string by_all(const Tool& tool, const ConvertArguments& options, const Progress& done) {
  const auto& group = options.convert.group();
  const auto destination =
      run_and_agree(group, [&] { return require_parent(tool.at(options.destination)); });
  const auto to_safetensors = is_safetensors(destination.path()),
             to_zarr = is_zarr(destination.path());
  const auto others = tool.here.at(io::local_path(options.source));
  const bool from_safetensors = is_safetensors(options.source);
  const bool from_dcp = run_and_agree(group, [&] { return is_dcp(others); });
  if (to_safetensors || to_zarr) {
    require_no_codec(options.convert);
    require_directory_of(destination);
  }
  if ((from_safetensors || from_dcp) && (to_safetensors || to_zarr)) refuse_copy();
  if (from_safetensors) {
    return import_safetensors(others, destination, options.under, options.convert, done);
  }
  if (from_dcp) {
    return import_dcp(others, destination, options.under, options.convert, done);
  }
  if (!to_safetensors && !to_zarr && !options.under.empty()) {
    throw Error(Code::invalid_argument, "--under is for files of others",
                "of checkpoints all tensors are converted", "Leave it out.");
  }
  const auto read = [&] {
    return read_in_place(resolve_checkpoint(tool.at(options.source).view()));
  };
  if (to_safetensors) {
    const auto source = run_and_agree(group, read);
    return export_safetensors(source, destination, options.under, options.convert, done);
  }
  // This rank works alone; the others wait for its result.
  return run_and_agree(group, [&]() -> std::string {
    if (group->rank() != 0) return "";
    auto alone = options.convert;
    alone.ranks = nullptr;
    if (to_zarr) return export_zarr(read(), destination, options.under, alone, done);
    return convert_checkpoint(read(), destination, alone, done);
  });
}

// A checkpoint keeps its number in the order of commits. That may say that the run there has left
// it behind.
void warn_if_superseded(const Address& made) try {
  const auto file = commit::split_main_file(made.path());
  const auto split = commit::split_step((file ? file->prefix : made.path()).filename().string());
  if (!split) return;
  for (const auto& one : scan_catalog(location_of(made.directory(), split->name))) {
    if (one.step != split->step || !one.superseded) continue;
    log(LogLevel::warning, cat(made.string(),
                               " is superseded there: no restart takes it by itself, "
                               "and retention may remove it. cairn pin keeps it"));
  }
} catch (const Error&) {  // it was made all the same
}

void run(Tool& tool, const ConvertArguments& arguments) {
  const Ranks ranks(arguments.alone);
  auto options = arguments;
  options.convert.ranks = ranks.group();
  const auto names = words(StoreCodec{});
  options.convert.codec =
      static_cast<StoreCodec>(std::find(names.begin(), names.end(), options.codec) - names.begin());
  try {
    std::optional<ProgressBar> bar;
    if (ranks.root()) bar.emplace("convert");
    const auto made = by_all(tool, options, bar ? bar->callback() : Progress{});
    if (!ranks.root()) return;
    if (tool.json) {
      print_json({{"made", made}});
    } else {
      print_line(made);
    }
    warn_if_superseded(tool.at(made));
  } catch (const Error& error) {
    if (ranks.group()->size() == 1) throw;
    if (error.code() == Code::communication) ranks.group()->abort(error.what());
    // The error is printed once for all ranks, before any rank ends: when one ends, the launcher
    // ends the others.
    tool.exit_code = error.code() == Code::data_loss ? 1 : 2;
    if (ranks.root()) tell_error(error, tool.json);
  } catch (const std::exception& error) {  // only this rank has this error
    if (ranks.group()->size() > 1) ranks.group()->abort(error_of(error).what());
    throw;
  }
}

}  // namespace

void add_convert(Tool& tool) {
  auto options = std::make_shared<ConvertArguments>();
  auto* command =
      tool.app.add_subcommand("convert", "Convert a checkpoint to another format or other slices");
  command
      ->add_option("A", options->source,
                   "Checkpoint or directory (its newest); FILE.safetensors or its .index.json; "
                   "directory of torch's DCP")
      ->required();
  command
      ->add_option("B", options->destination,
                   "New PREFIX, PREFIX.h5 (HDF5), FILE.safetensors or NAME.zarr (Zarr 3)")
      ->required();
  command
      ->add_option("--max-shard-size", options->convert.max_shard_bytes,
                   "Cut slices so that no data file holds more (e.g. 64MiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  const auto names = words(StoreCodec{});
  command
      ->add_option("--codec", options->codec,
                   "Store HDF5 in chunks with this codec, which other programs read, too")
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())));
  command->add_flag("--overwrite", options->convert.overwrite,
                    "Replace what is at B, in either format");
  command->add_option(
      "--under", options->under,
      "Writing safetensors or Zarr: take only PATH/KEY and call it KEY. Reading others' files: "
      "store KEY as PATH/KEY");
  command->add_flag("--alone", options->alone,
                    "One process, even in the environment of several ranks");
  add_json(*command, tool);
  command->footer(
      "What has a checksum is checked; values stay the same bit by bit. Checkpoints get\n"
      "checksums, and keep step, time, metric and place among other steps. Reading Cairn's, it\n"
      "takes less than 96 MiB of memory, but an encoded slice is held whole.\n"
      "Under mpirun all ranks convert DCP and safetensors; rank 0 does the rest. An existing\n"
      "Zarr directory is never replaced. More: docs/other-files.md.\n\n"
      "Examples:\n"
      "  cairn convert run/ckpt/ckpt-100 export/ckpt-100.h5 --codec zstd\n"
      "  cairn convert run/ckpt export/model.safetensors --under model\n"
      "  cairn convert hub/model.safetensors.index.json start/ckpt-0 --under model\n"
      "  cairn convert dcp/step-100 run/ckpt-100\n"
      "  cairn convert run/ckpt export/fields.zarr");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
