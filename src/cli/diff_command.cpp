// cairn diff shows what differs between two checkpoints.
#include "tools/diff.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/elements.hpp"
#include "cli/picture.hpp"
#include "cli/print.hpp"
#include "cli/progress_bar.hpp"
#include "cli/target.hpp"
#include "tools/diff_sample.hpp"

namespace cairn::cli {
namespace {

using Kind = TensorDifference::Kind;

struct DiffArguments {
  std::string a, b, key, slice, picture;
  Tolerance tolerance;
  bool json = false, is_log = false;
};

const char* word(Kind kind) {
  constexpr const char* words[] = {"only in A", "only in B", "dtype",
                                   "shape",     "values",    "cannot be read"};
  return words[static_cast<int>(kind)];
}

std::string index_text(const Dims& index) {
  std::string text = "[";
  for (const auto i : index) text += cat(text.size() > 1 ? "," : "", i);
  return text + "]";
}

void print(const TensorDifference& one) {
  const auto head = cat(shown_key(one.key), ": ", word(one.kind), ": ");
  if (one.kind != Kind::values) return print_line(head + one.what);
  const auto text = [&](const std::string& value) {
    return one.are_strings ? string_text(value) : value;
  };
  print_line(cat(head, one.differing, " of ", one.elements, " elements differ"));
  print_line(cat("  first at ", index_text(one.first), ": ", text(one.first_a), " and ",
                 text(one.first_b)));
  if (one.max_absolute) {
    print_line(cat("  largest difference ", *one.max_absolute, " at ",
                   index_text(one.where_absolute), ", relative ", *one.max_relative, " at ",
                   index_text(one.where_relative)));
  }
}

void print(const DescriptionDifference& one) {
  print_line(cat(one.key.empty() ? "(checkpoint)" : shown_key(one.key), ": ", string_text(one.name),
                 ": ", one.a.empty() ? "only in B: " : one.a,
                 one.a.empty() || one.b.empty() ? "" : " and ", one.b,
                 one.b.empty() ? " only in A" : ""));
}

Json json_of(const DescriptionDifference& one) {
  Json out;
  if (!one.key.empty()) out["key"] = one.key;
  out["name"] = one.name;
  if (!one.a.empty()) out["a"] = parse_json<Json>(one.a);
  if (!one.b.empty()) out["b"] = parse_json<Json>(one.b);
  return out;
}

Json json_of(const TensorDifference& one) {
  Json out;
  add_key(out, one.key);
  out["kind"] = word(one.kind);
  if (one.kind != Kind::values) {
    out["what"] = one.what;
    return out;
  }
  out["elements"] = one.elements;
  out["differing"] = one.differing;
  out["first"] = {{"index", one.first}, {"a", one.first_a}, {"b", one.first_b}};
  if (one.max_absolute) {
    out["max_absolute"] = {{"value", *one.max_absolute}, {"index", one.where_absolute}};
    out["max_relative"] = {{"value", *one.max_relative}, {"index", one.where_relative}};
  }
  return out;
}

void print(const CheckpointDiff& found, const DiffArguments& options) {
  for (const auto& one : found.differences) print(one);
  for (const auto& one : found.descriptions) print(one);
  if (found.same()) {
    print_line(cat("same: ", found.tensors, found.tensors == 1 ? " tensor" : " tensors",
                   options.tolerance.any() ? ", within the tolerance" : ", bit by bit"));
  }
}

// Chooses the plane to show of a tensor of more than two dimensions: the last two dimensions,
// through the largest difference or, without one, through the first.
Shown choose_plane(Selection& selection, const TensorDifference* difference) {
  auto through = selection;
  auto shown = show_at_most(through, 2);
  if (!difference) {
    selection = through;
    return shown;
  }
  const auto& where = difference->max_absolute ? difference->where_absolute : difference->first;
  for (const auto d : shown.fixed) {
    const auto& one = selection[d];
    const auto number =
        std::clamp<std::int64_t>((where[d] - one.start) / one.step, 0, one.count - 1);
    through[d].start = one.start + number * one.step;
  }
  selection = through;
  return shown;
}

Words words_of(const DiffSample& found, const TensorAt& a, const TensorAt& b,
               const Selection& selection, const Shown& shown, bool is_log) {
  Words words;
  words.title =
      cat(a.checkpoint->prefix, " and ", b.checkpoint->prefix, "  ", shown_key(a.tensor.key));
  words.subtitle =
      cat("|a - b|", is_log ? ", logarithmic" : "", "  ", dtype_name(a.tensor.dtype), ' ',
          shape_text(a.tensor.shape), "  [", selection_text(selection, a.tensor.shape), ']');
  if (!shown.fixed.empty()) words.notes.push_back(fixed_text(selection, shown, a.tensor.shape));
  words.notes.push_back(cat(found.differing, " of ", found.elements, " elements differ",
                            found.differing < found.elements ? "; where none does is light" : ""));
  if (found.without_number > 0) {
    words.notes.push_back(
        cat(found.without_number, " of them by no number (NaN, infinity, -0): two greys"));
  }
  if (found.row_step > 1 || found.column_step > 1) {
    words.notes.push_back(
        cat("a cell is the largest of ", found.row_step, " x ", found.column_step, " elements"));
  }
  return words;
}

// Returns whether the differences vary so much that a logarithmic scale is needed.
bool spreads(const std::vector<double>& values) {
  constexpr double wide = 1000;
  const auto scale = colour_scale(values, true, {});
  return scale.has_numbers && scale.high / scale.low > wide;
}

void draw(const TensorAt& a, const TensorAt& b, const DiffArguments& options,
          const TensorDifference* difference) {
  require_drawable(a.tensor);
  auto selection = parse_selection(options.slice, a.tensor.shape);
  const auto shown = choose_plane(selection, difference);
  if (shown.dimensions.empty()) {
    throw Error(Code::invalid_argument, "there is no picture of a single element", "",
                "Leave --picture out: the values of both are printed.")
        .of_tensor(a.tensor.key);
  }
  PictureOptions picture;
  if (options.picture != "-") picture.output = options.picture;
  const bool is_curve = shown.dimensions.size() == 1;
  const auto row = shown.dimensions.front(), column = shown.dimensions.back();
  auto room = room_for(picture, is_curve ? 1 : selection[row].count, selection[column].count);
  if (is_curve && !picture.output.empty()) room.columns = curve_width;
  auto found = diff_sample(a, b, selection, room.rows, room.columns, options.tolerance);
  picture.is_log = options.is_log || spreads(found.values);
  auto words = words_of(found, a, b, selection, shown, picture.is_log);
  const auto along = axis_of(selection, column, found.column_step);
  if (is_curve) {
    Curve curve;
    curve.axis = along;
    curve.is_difference = true;
    curve.values = std::move(found.values);
    for (std::size_t i = 0; i < curve.values.size(); ++i) {
      if (found.marks[i] == Mark::same) curve.values[i] = 0;
    }
    return show(std::move(curve), std::move(words), picture);
  }
  Plane plane;
  plane.rows = found.rows;
  plane.columns = found.columns;
  plane.row_axis = axis_of(selection, row, found.row_step);
  plane.column_axis = along;
  plane.values = std::move(found.values);
  plane.marks = std::move(found.marks);
  const auto flatness =
      static_cast<double>(found.row_step) / static_cast<double>(found.column_step);
  show(std::move(plane), std::move(words), picture, flatness);
}

// Draws the tensor with this key of both checkpoints. Throws if it has nothing to draw.
void draw(const OpenCheckpoint& a, const OpenCheckpoint& b, const CheckpointDiff& found,
          const DiffArguments& options) {
  const auto& one = a->tensors.front();
  const auto* difference = found.differences.empty() ? nullptr : &found.differences.front();
  if (difference && difference->kind != Kind::values) {
    throw Error(Code::invalid_argument,
                cat("there is no picture of where tensor ", shown_key(one.key), " differs"),
                cat(word(difference->kind), ": ", difference->what))
        .of_tensor(one.key);
  }
  draw(TensorAt{a, one}, {b, b->tensors.front()}, options, difference);
}

OpenCheckpoint only(const OpenCheckpoint& checkpoint, const std::string& key) {
  auto contents = *checkpoint;
  std::erase_if(contents.tensors, [&](const auto& tensor) { return tensor.key != key; });
  if (contents.meta) {
    auto& said = contents.meta->descriptions;
    said.attributes.clear();
    std::erase_if(said.by_key, [&](const auto& one) { return one.first != key; });
  }
  return {checkpoint.prefix(), std::move(contents)};
}

void compare_and_print(Tool& tool, const DiffArguments& options, const Address& prefix_a,
                       const Address& prefix_b) {
  const Still still_a(tool.at(options.a), prefix_a), still_b(tool.at(options.b), prefix_b);
  auto a = open_checkpoint(prefix_a, Graph::read);
  auto b = open_checkpoint(prefix_b);
  if (!options.key.empty()) {
    const auto key = require_tensor(*a, options.key).key;
    a = only(a, key);
    b = only(b, key);
    if (a->tensors.empty()) {
      throw Error(Code::invalid_argument, cat("tensor ", shown_key(key), " is not compared"),
                  "it is Cairn's own")
          .of_tensor(key);
    }
  }
  ProgressBar bar("compare");
  const auto found = compare(a, b, options.tolerance, bar.callback());
  if (found.cannot_tell()) {
    still_a.require();
    still_b.require();
  }
  tool.exit_code = found.cannot_tell() ? 2 : found.same() ? 0 : 1;
  if (options.json) {
    Json out;
    out["a"] = a->prefix;
    out["b"] = b->prefix;
    out["same"] = found.same();
    out["tensors_compared"] = found.tensors;
    out["bytes_read"] = found.bytes;
    out["differences"] = Json::array();
    for (const auto& one : found.differences) out["differences"].push_back(json_of(one));
    out["descriptions"] = Json::array();
    for (const auto& one : found.descriptions) out["descriptions"].push_back(json_of(one));
    print_json(out);
  } else {
    print(found, options);
  }
  if (!options.picture.empty()) draw(a, b, found, options);
}

void run(Tool& tool, const DiffArguments& options) {
  if (options.json && options.picture == "-") {
    throw Error(Code::invalid_argument, "--json and --picture - both print", "",
                "Give the picture a file: --picture FILE.png.");
  }
  with_checkpoint(tool.at(options.a), [&](const Address& a) {
    with_checkpoint(tool.at(options.b),
                    [&](const Address& b) { compare_and_print(tool, options, a, b); });
  });
}

}  // namespace

void add_diff(Tool& tool) {
  auto options = std::make_shared<DiffArguments>();
  auto* command = tool.app.add_subcommand("diff", "Compare two checkpoints");
  // CLI11 accepts nan as a number that is not negative.
  const CLI::Validator number(
      [](std::string& given) -> std::string {
        double value = 0;
        const bool fits = CLI::detail::lexical_cast(given, value) && value >= 0 &&
                          value <= std::numeric_limits<double>::max();
        return fits ? "" : cat(given, " is no number of 0 or more");
      },
      "NONNEGATIVE");
  command->add_option("A", options->a, "Checkpoint or directory (its newest)")->required();
  command->add_option("B", options->b, "The other one")->required();
  auto* key =
      command->add_option("KEY", options->key, "One tensor: key, or variable's path or name");
  command
      ->add_option("--tolerance", options->tolerance.relative,
                   "Largest difference of equal numbers, as part of the larger one")
      ->check(number);
  command
      ->add_option("--absolute", options->tolerance.absolute, "Largest difference of equal numbers")
      ->check(number);
  command->add_flag("--json", options->json, "Print JSON");
  auto* picture = command->add_option("--picture", options->picture,
                                      "Draw where KEY differs: FILE.png, .ppm, or - (terminal)");
  picture->needs(key);
  command
      ->add_option("--slice", options->slice,
                   "Part to draw, in NumPy's syntax; default: the plane of the largest "
                   "difference")
      ->needs(picture);
  command->add_flag("--log", options->is_log, "Logarithmic colours")->needs(picture);
  command->footer(
      "Compares keys, dtypes, shapes, every element and, if Cairn saved both, units,\n"
      "dimensions and attributes; not slices and files. Without tolerance, elements are equal\n"
      "if their bits are. All that is read is checked. Exit status: 0 equal, 1 different, 2\n"
      "error or damage.\n\n"
      "Examples:\n"
      "  cairn diff run/ckpt/ckpt-100 run/ckpt/ckpt-200\n"
      "  cairn diff --tolerance 1e-6 gpu/ckpt cpu/ckpt\n"
      "  cairn diff run/ckpt/ckpt-100 again/ckpt/ckpt-100 u --picture where.png");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
