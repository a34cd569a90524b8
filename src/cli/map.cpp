// cairn map: a picture of who holds what of a tensor.
#include <ostream>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "contents/contents_reader.hpp"
#include "contents/read_holders.hpp"
#include "tools/slice_map.hpp"

namespace cairn::cli {
namespace {

struct MapArguments {
  std::string target, key, output;
};

void run(Tool& tool, const MapArguments& options) {
  const auto contents =
      read_contents(*tool.files, resolve_checkpoint(*tool.files, options.target), Graph::read);
  const auto& tensor = require_tensor(contents, options.key);
  if (!tensor.problem.empty()) {
    throw Error(Code::data_loss, cat("tensor ", shown_key(tensor.key), " cannot be read"),
                tensor.problem, "cairn verify names everything that is damaged.")
        .of_tensor(tensor.key);
  }
  const auto title = cat(contents.prefix, "  ", shown_key(tensor.key));
  // In an HDF5 file a tensor is one run of bytes: how it was cut is told beside it.
  const auto holders = read_holders(*tool.files, contents);
  std::string image;
  if (holders && holders->tensors.count(tensor.key)) {
    auto held = tensor;
    held.slices.clear();
    for (const auto& one : holders->tensors.at(tensor.key)) {
      auto& slice = held.slices.emplace_back();
      slice.box = one.box;
      slice.file = static_cast<std::int32_t>(one.task);
      slice.size = one.box.count() * static_cast<std::int64_t>(dtype_size(tensor.dtype));
    }
    image = slice_map(held, title, holders->tasks);
  } else {
    image = slice_map(tensor, title);
  }
  to_output(options.output, [&](std::ostream& out) { out << image; });
}

}  // namespace

void add_map(Tool& tool) {
  auto options = std::make_shared<MapArguments>();
  auto* command = tool.app.add_subcommand("map", "Draw how a tensor is cut into slices");
  command->add_option("PREFIX", options->target, "Checkpoint, or a directory for its newest one")
      ->required();
  command->add_option("KEY", options->key, "Key of the tensor, or the path or name of a variable")
      ->required();
  command->add_option("--output,-o", options->output,
                      "SVG file to write instead of standard output");
  command->footer(
      "Tensors of 1 to 3 dimensions; colours are data files, of which each rank that writes has "
      "its\n"
      "own, in rank order; of an HDF5 file they are the device tasks that held the slices. Of "
      "three dimensions, one plane is drawn for each run of indices of the\n"
      "first over which the cuts are the same. A browser shows box, file and bytes of the slice "
      "that\n"
      "the pointer is on.\n\n"
      "Examples:\n"
      "  cairn map run/ckpt u --output u.svg\n"
      "  cairn map run/ckpt/ckpt-100 layers/0/kernel > kernel.svg");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
