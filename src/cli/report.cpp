// cairn report writes one page about a run's directory.
#include <filesystem>
#include <iostream>
#include <ostream>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/failures.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "store/commit/names.hpp"
#include "tools/run_report.hpp"

namespace cairn::cli {
namespace {

struct ReportArguments {
  std::string directory, name, key, output;
};

// The name whose saves are in the directory. If there are several, `asked` must choose one.
std::string chosen_name(const Address& directory, const std::string& asked) {
  const auto names = names_of(list_prefixes(directory));
  if (names.contains(asked)) return asked;
  if (names.empty()) {
    throw Error(Code::not_found, cat("there are no numbered checkpoints in ", directory.string()),
                "a report is about saves that follow each other",
                "cairn ls tells what is there, and which saves failed.");
  }
  if (asked.empty() && names.size() == 1) return *names.begin();
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  if (!asked.empty()) {
    throw Error(Code::not_found,
                cat("there are no checkpoints of the name ", asked, " in ", directory.string()),
                "there are those of " + all, "Choose one of these with --name.");
  }
  throw Error(Code::invalid_argument, "there are checkpoints of several names: " + all, "",
              "Choose one with --name.");
}

Json json_of(const ReportedSave& one) {
  const auto& save = one.save;
  Json out{{"step", save.step},
           {"sequence", save.sequence},
           {"parent", save.parent >= 0 ? Json(save.parent) : Json()},
           {"time_seconds", save.wall_time_seconds},
           {"ranks", save.ranks},
           {"bytes", save.bytes},
           {"total_seconds", save.total_seconds},
           {"blocked_seconds", save.blocked_seconds},
           {"write_seconds", save.write_seconds},
           {"asynchronous", save.asynchronous},
           {"checkpoint", Json()}};
  if (!one.entry) return out;
  const auto& entry = *one.entry;
  out["checkpoint"] = {{"disk_bytes", one.disk_bytes},
                       {"superseded", entry.superseded},
                       {"pinned", entry.pin != Pin::none},
                       {"application", application_json(entry.save.application)},
                       {"whole", entry.damage.empty()},
                       {"damage", entry.damage.empty() ? Json() : Json(entry.damage)},
                       {"stays", one.decision ? Json(one.decision->stays) : Json()},
                       {"why", one.decision ? Json(one.decision->why) : Json()}};
  return out;
}

Json json_of(const RunReport& report) {
  Json saves = Json::array();
  for (const auto& one : report.saves) saves.push_back(json_of(one));
  Json keep;
  if (report.keep) {
    keep = {{"last", report.keep->last},
            {"every_steps", report.keep->every_steps},
            {"every_hours", report.keep->every_hours},
            {"best", report.keep->best},
            {"larger_is_better", report.keep->larger_is_better}};
  }
  return {{"directory", report.directory},
          {"host", report.host},
          {"name", report.name},
          {"made_at_seconds", report.made_at_seconds},
          {"newest", report.newest >= 0 ? Json(report.newest) : Json()},
          {"owner", report.owner.empty() ? Json() : Json(report.owner)},
          {"unfinished", report.unfinished},
          {"keep", std::move(keep)},
          {"saves", std::move(saves)}};
}

void run(Tool& tool, const ReportArguments& options) {
  const auto directory = require_directory(tool.at(options.directory).view());
  if (!options.name.empty()) commit::check_checkpoint_name(options.name);
  const auto name = chosen_name(directory, options.name);
  commit::check_checkpoint_name(name);
  const auto report = read_run(location_of(directory, name), options.key);
  const auto write = [](const std::string& path, const std::string& page) {
    to_output(path, [&](std::ostream& out) { out << page; });
  };
  if (tool.json) {
    auto json = json_of(report);
    json["failures"] = cli::json_of(failures_in(directory, name));
    return write(options.output, json_text(json) + "\n");
  }
  const std::filesystem::path output = options.output;
  const bool is_file = !output.empty() && !is_stream(options.output);
  if (!is_file || !is_long(report)) return write(options.output, report_page(report));
  const auto all = cat(output.stem().string(), ".all", output.extension().string());
  write(options.output, report_page(report, all));
  write((output.parent_path() / all).string(), report_page(report, "", true));
}

}  // namespace

void add_report(Tool& tool) {
  auto options = std::make_shared<ReportArguments>();
  auto* command = tool.app.add_subcommand("report", "Make a page about a run's directory");
  command->add_option("DIR", options->directory, "Checkpoint directory")->required();
  command->add_option("--output,-o", options->output, "File instead of standard output");
  command->add_option("--name", options->name, "Only checkpoints NAME-STEP");
  command->add_option("--key", options->key, "Tensor whose slices are drawn; default: the largest");
  add_json(*command, tool);
  command->footer(
      "Shows how long saves took, slow ranks, which save continued which, what stays and why,\n"
      "who holds what, and damage. The page needs no network or script, and may be made while a\n"
      "job runs. Above 200 saves it shows the newest; FILE.all.html (with -o) shows all.\n\n"
      "Examples:\n"
      "  cairn report run/ckpt -o report.html");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
