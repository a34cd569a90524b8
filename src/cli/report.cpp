// cairn report: one page about a run's directory.
#include <filesystem>
#include <iostream>
#include <ostream>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "store/commit/names.hpp"
#include "tools/run_report.hpp"

namespace cairn::cli {
namespace {

struct ReportArguments {
  std::string directory, name, key, output;
};

// The name whose saves are in the directory. Of several one must be chosen.
std::string only_name(const Address& directory) {
  std::set<std::string> names;
  for (const auto& prefix : list_prefixes(directory)) {
    if (const auto split = commit::split_step(prefix)) names.insert(split->name);
  }
  if (names.empty()) {
    throw Error(Code::not_found, cat("there are no numbered checkpoints in ", directory.string()),
                "a report is about saves that follow each other",
                "Give a directory of a CheckpointManager; cairn ls lists what is there.");
  }
  if (names.size() == 1) return *names.begin();
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  throw Error(Code::invalid_argument, "there are checkpoints of several names: " + all, "",
              "Choose one with --name.");
}

void run(Tool& tool, const ReportArguments& options) {
  const auto directory = require_directory(tool.at(options.directory));
  const auto name = options.name.empty() ? only_name(directory) : options.name;
  commit::check_checkpoint_name(name);
  const auto report = read_run(location_of(directory, name), options.key);
  const auto write = [](const std::string& path, const std::string& page) {
    to_output(path, [&](std::ostream& out) { out << page; });
  };
  const std::filesystem::path output = options.output;
  const bool is_file = !output.empty() && (!std::filesystem::exists(output) ||
                                           std::filesystem::is_regular_file(output));
  if (!is_file || !is_long(report)) return write(options.output, report_page(report));
  const auto all = cat(output.stem().string(), ".all", output.extension().string());
  write(options.output, report_page(report, all));
  write((output.parent_path() / all).string(), report_page(report, "", true));
}

}  // namespace

void add_report(Tool& tool) {
  auto options = std::make_shared<ReportArguments>();
  auto* command = tool.app.add_subcommand("report", "Make a page about a run's directory");
  command->add_option("DIR", options->directory, "Directory of checkpoints")->required();
  command->add_option("--output,-o", options->output,
                      "HTML file to write instead of standard output");
  command->add_option("--name", options->name, "Of the checkpoints NAME-STEP, if there are others");
  command->add_option("--key", options->key,
                      "Tensor whose slices are drawn; else the largest that can be");
  command->footer(
      "What each save took and held, which ranks were slow, which line the run followed, what\n"
      "stays and why, who holds what, and what is damaged. The page needs no network and no\n"
      "script. It may be made while the job runs: nothing in the directory is changed. Of more\n"
      "than 200 saves it shows the newest; FILE.all.html beside it has all.\n\n"
      "Examples:\n"
      "  cairn report run/ckpt -o report.html\n"
      "  cairn report run/ckpt --key u -o report.html");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
