// cairn view shows a tensor, or a part of it, as a picture.

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/elements.hpp"
#include "cli/picture.hpp"
#include "cli/print.hpp"
#include "cli/progress_bar.hpp"
#include "cli/target.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/element_numbers.hpp"
#include "tools/read_tensor.hpp"
#include "tools/sample.hpp"

namespace cairn::cli {
namespace {

struct ViewArguments {
  std::string target, key, slice, reduce = "automatic";
  bool check = false;
  PictureOptions picture;
};

// For instance "3 x 2 elements" or "3 elements".
std::string block_text(const Sample2D& found) {
  if (found.rows == 1 && found.row_step == 1) return cat(found.column_step, " elements");
  return cat(found.row_step, " x ", found.column_step, " elements");
}

Words words_of(const CheckpointContents& contents, const StoredTensor& tensor,
               const Selection& selection, const Shown& shown, const Sample2D& found) {
  Words words;
  words.title = cat(contents.prefix, "  ", shown_key(tensor.key));
  words.subtitle = cat(dtype_name(tensor.dtype), ' ', shape_text(tensor.shape));
  const auto selected = selection_text(selection, tensor.shape);
  if (!tensor.shape.empty()) words.subtitle += cat("  [", selected, ']');
  if (!shown.fixed.empty()) {
    words.notes.push_back(cat("fixed in the middle: ", fixed_text(selection, shown, tensor.shape)));
  }
  if (tensor.gaps) {
    words.notes.push_back(cat(
        tensor.gaps->elements(), " of ", element_count(tensor.shape),
        " elements were held by no rank: ", element_text(tensor.dtype, tensor.gaps->fill.data())));
  }
  if (tensor.dtype == DType::complex64 || tensor.dtype == DType::complex128) {
    words.notes.push_back("absolute values of complex numbers");
  }
  const bool is_curve = !found.least.empty();
  if (found.row_step > 1 || found.column_step > 1) {
    words.notes.push_back(
        found.reduce == Reduce::stride ? cat("drawn is the first of each ", block_text(found))
        : is_curve ? cat("a column is the range of ", block_text(found), ", and their mean")
                   : cat("a cell is the mean of ", block_text(found)));
  }
  if (found.nans > 0) {
    words.notes.push_back(cat(found.nans, " of ", found.elements, " elements are NaN",
                              is_curve ? "" : " (two greys)"));
  }
  if (found.infinities > 0) {
    words.notes.push_back(cat(found.infinities, " of ", found.elements, " are infinite"));
  }
  if (!found.checked) {
    words.notes.push_back("NOT CHECKED: whole stored slices would have to be read (--check)");
  }
  return words;
}

void print_value(const OpenCheckpoint& checkpoint, const StoredTensor& tensor,
                 const Selection& selection, const std::string& output) {
  if (!output.empty()) {
    throw Error(Code::invalid_argument, cat("no picture of one number is written to ", output),
                cat("of ", shown_key(tensor.key), " a single element is selected"),
                "Leave -o out to have it printed.")
        .of_tensor(tensor.key);
  }
  const auto bytes = read_numbers(checkpoint, tensor, bounding_box(selection));
  print_line(element_text(tensor.dtype, bytes.data()));
}

void run(Tool& tool, const ViewArguments& options) {
  options.picture.given_range();  // reports an error in the range before anything is read
  const auto checkpoint = open_named(tool.at(options.target));
  const auto& tensor = require_tensor(*checkpoint, options.key);
  require_drawable(tensor);
  auto selection = parse_selection(options.slice, tensor.shape);
  const auto shown = show_at_most(selection, 2);
  if (shown.dimensions.empty()) {
    return print_value(checkpoint, tensor, selection, options.picture.output);
  }
  const bool is_curve = shown.dimensions.size() == 1;
  const auto row = shown.dimensions.front(), column = shown.dimensions.back();
  auto limits =
      room_for(options.picture, is_curve ? 1 : selection[row].count, selection[column].count);
  if (is_curve && !options.picture.output.empty()) limits.columns = curve_width;
  if (options.reduce == "mean") limits.reduce = Reduce::mean;
  if (options.reduce == "stride") limits.reduce = Reduce::stride;
  if (options.check) limits.check = Check::all;
  Sample2D found;
  {
    ProgressBar bar(cat("read ", shown_key(tensor.key)));
    found = sample(checkpoint, tensor, selection, limits, bar.callback());
  }
  auto words = words_of(*checkpoint, tensor, selection, shown, found);
  const auto along = axis_of(selection, column, found.column_step);
  if (is_curve) {
    Curve curve;
    curve.axis = along;
    curve.values = std::move(found.values);
    if (found.reduce == Reduce::mean) {
      curve.least = std::move(found.least);
      curve.largest = std::move(found.largest);
    }
    return show(std::move(curve), std::move(words), options.picture);
  }
  Plane plane;
  plane.rows = found.rows;
  plane.columns = found.columns;
  plane.row_axis = axis_of(selection, row, found.row_step);
  plane.column_axis = along;
  plane.values = std::move(found.values);
  const auto flatness =
      static_cast<double>(found.row_step) / static_cast<double>(found.column_step);
  show(std::move(plane), std::move(words), options.picture, flatness);
}

}  // namespace

void add_view(Tool& tool) {
  auto options = std::make_shared<ViewArguments>();
  auto* command = tool.app.add_subcommand("view", "Draw a tensor, or a part of it");
  command->add_option("PREFIX", options->target, "Checkpoint or directory (its newest)")
      ->required();
  command->add_option("KEY", options->key, "Tensor: key, or variable's path or name")->required();
  command->add_option("--slice", options->slice,
                      "Part in NumPy's syntax: index or start:stop:step of each dimension, "
                      "between commas; ... for omitted ones");
  command->add_flag("--log", options->picture.is_log, "Logarithmic colours, or heights");
  command->add_option("--range", options->picture.range,
                      "A:B, first and last colour's numbers; default: minimum and maximum");
  command
      ->add_option("--reduce", options->reduce,
                   "A cell of several elements shows their mean or first (stride). automatic: mean "
                   "up to 512 MiB")
      ->check(CLI::IsMember({"automatic", "mean", "stride"}))
      ->capture_default_str();
  command->add_flag("--check", options->check, "Check all, however much must be read");
  command->add_option("--output,-o", options->picture.output,
                      "FILE.png or .ppm, instead of the terminal");
  command->footer(
      "Two dimensions are a plane, the first downwards; one is a curve. With more dimensions,\n"
      "the first are fixed at their middle. Complex numbers are drawn by absolute value, NaN in\n"
      "two greys.\n"
      "Stored slices are read whole and checked. Where they exceed 512 MiB and four times what\n"
      "is drawn, only needed 64 KiB blocks are read, and the picture says NOT CHECKED.\n"
      "Colours follow COLORTERM and TERM; with NO_COLOR, or without a terminal, letters are\n"
      "printed.\n\n"
      "Examples:\n"
      "  cairn view run/ckpt u\n"
      "  cairn view run/ckpt/ckpt-100 u -o u.png --log --range 1e-3:1\n"
      "  cairn view run/ckpt density --slice ...,10,20      a line, as a curve");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
