// cairn stats: what the saves of a directory cost, as they noted it in their checkpoints.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "contents/contents_reader.hpp"

namespace cairn::cli {
namespace {

struct Row {
  std::string prefix;
  CheckpointMeta meta;
};

// In the order of their commits.
std::vector<Row> collect(io::FileSystem& files, const io::Path& directory) {
  std::vector<Row> rows;
  for (const auto& prefix : list_prefixes(files, directory)) {
    try {
      const auto contents = read_contents(files, directory / prefix);
      if (contents.meta) rows.push_back({prefix, *contents.meta});
    } catch (const Error&) {
      // cairn ls says what is damaged.
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.meta.sequence < b.meta.sequence; });
  return rows;
}

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return std::move(out).str();
}

std::string how(const SaveStatistics& save) {
  return cat(save.asynchronous ? "asynchronous" : "blocking",
             save.blocking_because.empty() ? "" : ": ", save.blocking_because);
}

// As long as the part of the longest.
std::string bar(double value, double most) {
  constexpr int width = 20;
  const auto length = most > 0 ? static_cast<int>(std::ceil(value / most * width)) : 0;
  return std::string(static_cast<std::size_t>(std::clamp(length, 0, width)), '#');
}

void print(const std::vector<Row>& rows) {
  double most = 0;
  for (const auto& [prefix, meta] : rows) {
    if (meta.statistics) most = std::max(most, meta.statistics->total_seconds);
  }
  std::vector<std::vector<std::string>> table = {{"checkpoint", "size", "s", "GB/s", "blocked",
                                                  "write", "waited for", "recycled", "plan", "",
                                                  "how"}};
  for (const auto& [prefix, meta] : rows) {
    if (!meta.statistics) {
      table.push_back({prefix, "-", "-", "-", "-", "-", "-", "-", "-", "", "not noted"});
      continue;
    }
    const auto& save = *meta.statistics;
    table.push_back({prefix, bytes_text(static_cast<double>(save.bytes)),
                     fixed(save.total_seconds, 3), fixed(save.gigabytes_per_second(), 2),
                     fixed(save.blocked_seconds, 3), fixed(save.seconds.write, 3),
                     cat("rank ", save.slowest.rank, ", ", fixed(save.slowest.waiting_seconds, 3)),
                     cat(save.recycled_files, " of ", save.files),
                     save.plan_reused ? "reused" : "new", bar(save.total_seconds, most),
                     how(save)});
  }
  print_table(table, "", {1, 2, 3, 4, 5, 6, 7});
}

Json json_of(const io::Path& directory, const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const auto& [prefix, meta] : rows) {
    Json item;
    item["prefix"] = (directory / prefix).string();
    item["step"] = meta.step;
    item["time_seconds"] = meta.wall_time_seconds;
    item["ranks"] = meta.ranks;
    item["statistics"] = Json();
    if (meta.statistics) {
      const auto& save = *meta.statistics;
      item["statistics"] = {{"bytes", save.bytes},
                            {"total_seconds", save.total_seconds},
                            {"gigabytes_per_second", save.gigabytes_per_second()},
                            {"blocked_seconds", save.blocked_seconds},
                            {"wait_seconds", save.seconds.wait},
                            {"plan_seconds", save.seconds.plan},
                            {"capture_seconds", save.seconds.capture},
                            {"write_seconds", save.seconds.write},
                            {"merge_seconds", save.seconds.merge},
                            {"slowest_rank", save.slowest.rank},
                            {"waiting_seconds", save.slowest.waiting_seconds},
                            {"replica_bytes", save.replica_bytes},
                            {"gap_bytes", save.gap_bytes},
                            {"files", save.files},
                            {"recycled_files", save.recycled_files},
                            {"plan_reused", save.plan_reused},
                            {"asynchronous", save.asynchronous},
                            {"blocking_because", save.blocking_because}};
    }
    list.push_back(std::move(item));
  }
  return {{"directory", directory.string()}, {"checkpoints", std::move(list)}};
}

}  // namespace

void add_stats(Tool& tool) {
  struct Options {
    std::string directory;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = tool.app.add_subcommand("stats", "Show what the saves of a directory cost");
  command->add_option("DIR", options->directory, "Directory of checkpoints")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "In the order in which they were committed. Seconds are those until the index was sealed, "
      "as\n"
      "the save noted them in its checkpoint: \"s\" from the call on (the bars), \"blocked\" what\n"
      "the application waited (of a blocking save, all), \"write\" the longest of any rank, and "
      "by\n"
      "how much that rank was longer than the first. \"not noted\": saved by an older version, or\n"
      "completed by a recovery.\n\n"
      "Examples:\n"
      "  cairn stats run/ckpt\n"
      "  cairn stats run/ckpt --json | jq '.checkpoints[].statistics.total_seconds'");
  command->callback([&tool, options] {
    const auto directory = require_directory(*tool.files, options->directory);
    const auto rows = collect(*tool.files, directory);
    if (options->json) return print_json(json_of(directory, rows));
    if (rows.empty()) {
      std::cout << "no checkpoints of Cairn in " << directory.string() << '\n';
    } else {
      print(rows);
    }
  });
}

}  // namespace cairn::cli
