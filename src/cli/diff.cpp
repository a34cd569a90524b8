// cairn diff: what differs between two checkpoints.
#include "tools/diff.hpp"

#include <cmath>
#include <iostream>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/elements.hpp"
#include "cli/print.hpp"
#include "cli/progress_bar.hpp"
#include "cli/target.hpp"

namespace cairn::cli {
namespace {

using Kind = TensorDifference::Kind;

struct DiffArguments {
  std::string a, b;
  Tolerance tolerance;
  bool json = false;
};

const char* word(Kind kind) {
  switch (kind) {
    case Kind::only_in_a:
      return "only in A";
    case Kind::only_in_b:
      return "only in B";
    case Kind::dtype:
      return "dtype";
    case Kind::shape:
      return "shape";
    case Kind::values:
      return "values";
    case Kind::unreadable:
      return "cannot be read";
  }
  return "";
}

std::string index_text(const Dims& index) {
  std::string text = "[";
  for (const auto i : index) text += cat(text.size() > 1 ? "," : "", i);
  return text + "]";
}

void print(const TensorDifference& one) {
  std::cout << shown_key(one.key) << ": " << word(one.kind);
  if (one.kind != Kind::values) {
    std::cout << ": " << one.what << '\n';
    return;
  }
  const auto text = [&](const std::string& value) {
    return one.are_strings ? string_text(value) : value;
  };
  std::cout << ": " << one.differing << " of " << one.elements << " elements differ\n  first at "
            << index_text(one.first) << ": " << text(one.first_a) << " and " << text(one.first_b)
            << '\n';
  if (one.max_absolute) {
    std::cout << "  largest difference " << *one.max_absolute << " at "
              << index_text(one.where_absolute) << ", relative " << *one.max_relative << " at "
              << index_text(one.where_relative) << '\n';
  }
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

void run(Tool& tool, const DiffArguments& options) {
  const auto a = read_contents(*tool.files, resolve_checkpoint(*tool.files, options.a));
  const auto b = read_contents(*tool.files, resolve_checkpoint(*tool.files, options.b));
  ProgressBar bar("compare");
  const auto found = compare(*tool.files, a, b, options.tolerance, bar.callback());
  tool.exit_code = found.cannot_tell() ? 2 : found.differences.empty() ? 0 : 1;
  if (options.json) {
    Json out;
    out["a"] = a.prefix;
    out["b"] = b.prefix;
    out["same"] = found.differences.empty();
    out["tensors_compared"] = found.tensors;
    out["bytes_read"] = found.bytes;
    out["differences"] = Json::array();
    for (const auto& one : found.differences) out["differences"].push_back(json_of(one));
    return print_json(out);
  }
  for (const auto& one : found.differences) print(one);
  if (found.differences.empty()) {
    std::cout << "same: " << found.tensors << (found.tensors == 1 ? " tensor" : " tensors")
              << (options.tolerance.any() ? ", within the tolerance\n" : ", bit by bit\n");
  }
}

}  // namespace

void add_diff(Tool& tool) {
  auto options = std::make_shared<DiffArguments>();
  auto* command = tool.app.add_subcommand("diff", "Compare two checkpoints");
  // CLI11 takes nan for a number that is not negative.
  const CLI::Validator number(
      [](std::string& given) -> std::string {
        double value = 0;
        const bool fits = CLI::detail::lexical_cast(given, value) && value >= 0 &&
                          value <= std::numeric_limits<double>::max();
        return fits ? "" : cat(given, " is no number of 0 or more");
      },
      "NONNEGATIVE");
  command->add_option("A", options->a, "Checkpoint, or a directory for its newest one")->required();
  command->add_option("B", options->b, "The other one")->required();
  command
      ->add_option("--tolerance", options->tolerance.relative,
                   "Numbers whose difference is at most this part of the larger one are the same")
      ->check(number);
  command
      ->add_option("--absolute", options->tolerance.absolute,
                   "Numbers that differ by at most this much are the same")
      ->check(number);
  command->add_flag("--json", options->json, "For programs");
  command->footer(
      "Compares keys, dtypes, shapes, then every element; how tensors are cut into slices and "
      "files\n"
      "does not count. Without a tolerance elements are the same if their bits are. All that is "
      "read\n"
      "is checked. Exit status 0: the same, 1: they differ, 2: an error, or something is "
      "damaged.\n\n"
      "Examples:\n"
      "  cairn diff run/ckpt/ckpt-100 run/ckpt/ckpt-200\n"
      "  cairn diff --tolerance 1e-6 gpu/ckpt cpu/ckpt");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
