// cairn xdmf writes a file with which ParaView and VTK read checkpoints in place.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <ostream>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "io/local_path.hpp"
#include "store/commit/names.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/xdmf_file.hpp"

namespace cairn::cli {
namespace {

struct XdmfArguments {
  std::string target, output, spacing, origin;
  XdmfOptions xdmf;
};

std::vector<double> parse_numbers(const std::string& option, const std::string& text) {
  std::vector<double> values;
  std::string_view rest = text;
  while (!text.empty()) {
    const auto comma = rest.find(',');
    const auto part = rest.substr(0, comma);
    double value = 0;
    const auto end = part.data() + part.size();
    const auto result = std::from_chars(part.data(), end, value);
    if (result.ec != std::errc{} || result.ptr != end || !std::isfinite(value)) {
      throw Error(Code::invalid_argument, cat(option, " ", text, " is no list of numbers"),
                  cat("'", part, "' is no finite number"),
                  "Give one number, or one a dimension, slowest first: 0.5,0.5,1");
    }
    values.push_back(value);
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  return values;
}

// The checkpoints of one name in a directory, ascending, or the one that was given.
struct Series {
  Address output;  // the default name of the output
  std::vector<Address> prefixes;
};

std::vector<Series> series_of(const Address& given) {
  const auto directory = given.at(io::local_path(given.path()));
  if (!directory.is_directory()) {
    const auto prefix = resolve_checkpoint(directory);
    return {{prefix.at(prefix.path().parent_path() / commit::xdmf_name(prefix.name())), {prefix}}};
  }
  std::vector<Series> all;
  std::set<std::string> names;
  for (const auto& prefix : list_prefixes(directory)) {
    const auto split = commit::split_step(prefix);
    const commit::Naming naming(split ? split->name : prefix, split.has_value());
    if (!names.insert(commit::prefix_name(naming, 0)).second) continue;
    Series series{directory / commit::xdmf_name(naming.name), {}};
    const auto catalog = scan_catalog(location_of(directory, naming));
    std::vector<std::int64_t> steps;
    for (const auto* entry : shown_in_xdmf(catalog)) steps.push_back(entry->step);
    std::sort(steps.begin(), steps.end());
    for (const auto step : steps) {
      series.prefixes.push_back(directory / commit::prefix_name(naming, step));
    }
    if (!series.prefixes.empty()) all.push_back(std::move(series));
  }
  if (all.empty()) {
    throw Error(Code::not_found, cat("there is no whole checkpoint in ", directory.string()), "",
                "cairn ls says what is there.")
        .at(directory.string());
  }
  return all;
}

struct Written {
  std::string file;
  std::size_t checkpoints;
  std::set<std::string> left_out;
};

struct Described {
  std::string text;
  std::set<std::string> left_out;
};

// Paths of files are relative to this folder, which may be empty.
Described describe(const Series& series, const io::Path& folder, const XdmfOptions& options) {
  std::vector<xdmf::Step> steps;
  for (const auto& prefix : series.prefixes) {
    steps.push_back(describe_step(open_checkpoint(prefix), options, folder));
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  std::vector<std::string> texts;
  Described described;
  for (const auto& step : steps) {
    texts.push_back(xdmf::step_text(step, options));
    described.left_out.insert(step.left_out.begin(), step.left_out.end());
  }
  described.text = xdmf::file_text(texts);
  return described;
}

Written write(const Series& series, const Address& output, const XdmfOptions& options) {
  const auto folder = output.path().parent_path();
  auto described = describe(series, folder, options);
  replace_xdmf(
      output, described.text,
      folder / commit::xdmf_temporary_name(output.path().stem().string(), commit::new_uuid()));
  return {output.string(), series.prefixes.size(), std::move(described.left_out)};
}

// It is not known where a stream will be read, so its paths are absolute.
Written write_stream(const Series& series, const std::string& output, const XdmfOptions& options) {
  auto described = describe(series, {}, options);
  to_output(output, [&](std::ostream& out) { out << described.text; });
  return {output, series.prefixes.size(), std::move(described.left_out)};
}

void tell(const std::vector<Written>& all, bool json) {
  Json files = Json::array();
  for (const auto& [file, checkpoints, left_out] : all) {
    files.push_back({{"file", file}, {"checkpoints", checkpoints}, {"not_shown", left_out}});
    if (json) continue;
    // The report goes to standard error if the file itself goes to standard output.
    const bool beside = is_stream(file) && is_standard_output(file);
    const auto say = [&](const std::string& line) {
      if (!beside) return print_line(line);
      std::fprintf(stderr, "%s\n", printable(line).c_str());
    };
    if (!beside)
      say(cat(file, ": ", checkpoints, checkpoints == 1 ? " checkpoint" : " checkpoints"));
    for (const auto& one : left_out) say(cat("  not shown: ", one));
  }
  if (json) print_json({{"files", std::move(files)}});
}

void run(Tool& tool, const XdmfArguments& given) {
  auto options = given.xdmf;
  options.spacing = parse_numbers("--spacing", given.spacing);
  options.origin = parse_numbers("--origin", given.origin);
  const bool streams = !given.output.empty() && is_stream(given.output);
  if (tool.json && streams && is_standard_output(given.output)) {
    throw Error(Code::invalid_argument, cat("--json and -o ", given.output, " both print"), "",
                "Leave one of them out.");
  }
  const auto refuse_address = [](const std::string& path) {
    if (!io::is_address(path)) return;
    throw Error(Code::unsupported, cat("there is no XDMF for ", path),
                "ParaView and VTK read the data files in place",
                "Download the checkpoints, and run this there.")
        .at(path);
  };
  refuse_address(given.target);
  if (!streams) refuse_address(given.output);
  const auto all =
      series_of(tool.at(streams ? std::filesystem::absolute(given.target).string() : given.target));
  if (given.output.empty()) {
    std::vector<Written> written;
    for (const auto& series : all) written.push_back(write(series, series.output, options));
    return tell(written, tool.json);
  }
  if (all.size() > 1) {
    throw Error(Code::invalid_argument,
                cat(given.target, " holds checkpoints of ", all.size(), " names"),
                "one file shows those of one name", "Leave -o out, or give a PREFIX.");
  }
  if (streams) return tell({write_stream(all.front(), given.output, options)}, tool.json);
  tell({write(all.front(), require_parent(tool.at(given.output)), options)}, tool.json);
}

}  // namespace

void add_xdmf(Tool& tool) {
  auto options = std::make_shared<XdmfArguments>();
  auto* command =
      tool.app.add_subcommand("xdmf", "Write a file with which ParaView shows checkpoints");
  command->add_option("PREFIX", options->target, "Checkpoint or directory (all in it)")->required();
  command->add_option("--spacing", options->spacing,
                      "Cell size: a number, or one per dimension between commas, slowest first");
  command->add_option("--origin", options->origin, "Corner of the first cell, likewise");
  command->add_option("--points", options->xdmf.points, "Keys of positions, [N 2] or [N 3]");
  command->add_option("--time", options->xdmf.time,
                      "Key of a checkpoint's time; default: its step");
  command->add_option("--output,-o", options->output,
                      "File; default: DIRECTORY/NAME.xdmf or PREFIX.xdmf");
  add_json(*command, tool);
  command->footer(
      "The file refers to the checkpoints' files. Tensors of 1 to 3 dimensions are cell values;\n"
      "a last dimension of components makes vectors. Positions (--points, or keys named\n"
      "position, positions, coordinates, coords, points, xyz) are points, with values from\n"
      "tensors of as many rows. The command lists tensors that it cannot show. With\n"
      "StoreOptions::xdmf a manager updates the file (docs/look.md).\n\n"
      "Examples:\n"
      "  cairn xdmf run/ckpt --spacing 0.01 --origin -0.5,-0.5 --time time\n"
      "  cairn xdmf run/ckpt/ckpt-100 --points particles/x -o look/at.xdmf");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
