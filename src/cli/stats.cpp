// cairn stats shows what the saves of a directory cost, as recorded in their checkpoints.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/failures.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "io/local_path.hpp"
#include "store/commit/names.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/open_metrics.hpp"
#include "tools/node_saves.hpp"

namespace cairn::cli {
namespace {

struct Row {
  std::string prefix;
  CheckpointMeta meta;
};

// The saves in the order of their commits.
std::vector<Row> collect(const Address& directory) {
  std::vector<Row> rows;
  for (const auto& prefix : list_prefixes(directory)) {
    try {
      const auto checkpoint = open_checkpoint(directory / prefix);
      if (checkpoint->meta) rows.push_back({prefix, *checkpoint->meta});
    } catch (const Error&) {
      // cairn ls reports damaged checkpoints.
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.meta.sequence < b.meta.sequence; });
  return rows;
}

std::map<std::string, double> newest_of(const std::vector<Row>& rows) {
  std::map<std::string, double> newest;
  for (const auto& [prefix, meta] : rows) {
    auto& seconds = newest[meta.name];
    seconds = std::max(seconds, meta.wall_time_seconds);
  }
  return newest;
}

std::string how(const SaveStatistics& save) {
  return cat(save.asynchronous ? "asynchronous" : "blocking",
             save.blocking_because.empty() ? "" : ": ", save.blocking_because);
}

std::string peak_text(const SaveStatistics& save) {
  const auto bytes = save.peak_resident_bytes;
  return bytes > 0 ? bytes_text(static_cast<double>(bytes)) : "-";
}

// A bar for `value`; `most` has the longest one.
std::string bar(double value, double most) {
  constexpr int width = 20;
  const auto part = most > 0 ? std::clamp(value / most, 0.0, 1.0) : 0;
  return std::string(static_cast<std::size_t>(std::ceil(part * width)), '#');
}

void print(const std::vector<Row>& rows) {
  double most = 0;
  for (const auto& [prefix, meta] : rows) {
    if (meta.statistics) most = std::max(most, meta.statistics->total_seconds);
  }
  std::vector<std::vector<std::string>> table = {{"checkpoint", "written", "unchanged", "s", "GB/s",
                                                  "blocked", "write", "waited for", "recycled",
                                                  "peak", "plan", "", "how"}};
  for (const auto& [prefix, meta] : rows) {
    if (!meta.statistics) {
      table.push_back({prefix, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "", "not noted"});
      continue;
    }
    const auto& save = *meta.statistics;
    table.push_back(
        {prefix, bytes_text(static_cast<double>(save.bytes)),
         save.unchanged_bytes > 0 ? bytes_text(static_cast<double>(save.unchanged_bytes)) : "-",
         fixed_text(save.total_seconds, 3), fixed_text(save.gigabytes_per_second(), 2),
         fixed_text(save.blocked_seconds, 3), fixed_text(save.seconds.write, 3),
         cat("rank ", save.slowest.rank, ", ", fixed_text(save.slowest.waiting_seconds, 3)),
         cat(save.recycled_files, " of ", save.files), peak_text(save),
         save.plan_reused ? "reused" : "new", bar(save.total_seconds, most), how(save)});
  }
  print_table(table, "", {1, 2, 3, 4, 5, 6, 7, 8, 9});
}

// The work that would be lost now, in seconds since the newest checkpoint anywhere, and since the
// newest one at home; -1 if there is none.
struct Risk {
  double since_save = -1, since_home = -1;
};
Risk risk_of(double home, const std::vector<NodeSave>& saves) {
  double any = home;
  for (const auto& save : saves) {
    if (save.margin >= 0 && !save.superseded) any = std::max(any, save.time);
  }
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto age = [&](double then) { return then > 0 ? std::max(0.0, now - then) : -1; };
  return {age(any), age(home)};
}

void print(const std::vector<NodeSave>& saves, const Risk& risk) {
  std::vector<std::vector<std::string>> table = {
      {"on nodes", "size", "write", "protect", "saved", "nodes seen"}};
  for (const auto& save : saves) {
    table.push_back({cat(save.name, "-", save.step), bytes_text(static_cast<double>(save.bytes)),
                     fixed_text(save.write_seconds, 3), fixed_text(save.protect_seconds, 3),
                     local_time(save.time), cat(save.nodes_seen, " of ", save.nodes)});
  }
  if (saves.empty()) {
    print_line("nothing on the nodes that can be seen from here");
  } else {
    print_table(table, "", {1, 2, 3});
  }
  const auto text = [](double seconds) {
    return seconds < 0 ? std::string("all of it") : cat(fixed_text(seconds, 0), " s");
  };
  print_line(cat("work at risk: ", text(risk.since_save), " if processes die, ",
                 text(risk.since_home), " if all nodes do"));
}

Json json_of(const std::vector<NodeSave>& saves, const Risk& risk) {
  Json list = Json::array();
  for (const auto& save : saves) {
    list.push_back({{"name", save.name},
                    {"step", save.step},
                    {"time_seconds", save.time},
                    {"bytes", save.bytes},
                    {"write_seconds", save.write_seconds},
                    {"protect_seconds", save.protect_seconds},
                    {"nodes", save.nodes},
                    {"nodes_seen", save.nodes_seen}});
  }
  return {{"checkpoints", std::move(list)},
          {"since_save_seconds", risk.since_save < 0 ? Json() : Json(risk.since_save)},
          {"since_home_seconds", risk.since_home < 0 ? Json() : Json(risk.since_home)}};
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
                            {"peak_resident_bytes", save.peak_resident_bytes},
                            {"files", save.files},
                            {"recycled_files", save.recycled_files},
                            {"unchanged_bytes", save.unchanged_bytes},
                            {"plan_reused", save.plan_reused},
                            {"asynchronous", save.asynchronous},
                            {"blocking_because", save.blocking_because}};
    }
    list.push_back(std::move(item));
  }
  return {{"directory", directory.string()}, {"checkpoints", std::move(list)}};
}

// The metadata of the newest of these checkpoints that still exists.
std::optional<CheckpointMeta> newest_meta(const Address& directory, const std::string& name,
                                          const std::vector<const CatalogEntry*>& live) {
  for (const auto* one : live) {
    try {
      return open_checkpoint(directory / commit::prefix_name(name, one->step))->meta;
    } catch (const Error&) {  // it has just been removed
    }
  }
  return std::nullopt;
}

// For each name under which saves were tried or are seen.
std::map<std::string, Measured> measure(const Address& directory,
                                        const std::vector<NodeSave>& saves) {
  const auto failures = failures_in(directory);
  auto names = names_of(list_prefixes(directory));
  for (const auto& save : saves) names.insert(save.name);
  for (const auto& [name, status] : failures) names.insert(name);
  std::map<std::string, Measured> all;
  for (const auto& name : names) {
    auto& measured = all[name];
    const auto catalog = scan_catalog(location_of(directory, name));
    const auto live = restorable(catalog);
    measured.checkpoints = std::ssize(live);
    measured.newest = newest_meta(directory, name, live);
    if (const auto at = failures.find(name); at != failures.end()) measured.failures = at->second;
    std::vector<NodeSave> on_nodes;
    for (const auto& save : saves) {
      if (save.name != name) continue;
      if (!measured.margin && !save.superseded) measured.margin = save.margin;
      on_nodes.push_back(save);
    }
    double home = 0;
    for (const auto* one : live) home = std::max(home, one->save.wall_time_seconds);
    const auto risk = risk_of(home, on_nodes);
    measured.since_save_seconds = risk.since_save;
    measured.since_home_seconds = risk.since_home;
  }
  return all;
}

}  // namespace

void add_stats(Tool& tool) {
  struct Options {
    std::string directory;
    TierOption tier;
    bool open_metrics = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = tool.app.add_subcommand("stats", "Show what the saves of a directory cost");
  command->add_option("DIR", options->directory, "Checkpoint directory")->required();
  add_tier(*command, options->tier,
           "Also list the checkpoints in this directory of the nodes "
           "(the job's tier)");
  command
      ->add_flag("--openmetrics", options->open_metrics, "For Prometheus, or a textfile collector")
      ->excludes(add_json(*command, tool));
  command->footer(
      "In commit order. Times end when the index was sealed. \"s\" (the bars) runs from the\n"
      "call; \"blocked\" is the application's wait. \"write\": the longest of any rank; \"waited\n"
      "for\": that rank, and by how much it exceeds the first. \"peak\" is the most RAM of any\n"
      "rank so far. \"not noted\": saved by an older version or completed by recovery. --tier\n"
      "adds saves on nodes: \"write\", \"protect\" (parity) and work at risk. The last line\n"
      "reports failed saves. --openmetrics prints each name's newest checkpoint, its save,\n"
      "failures and work at risk.\n\n"
      "Examples:\n"
      "  cairn stats run/ckpt\n"
      "  cairn stats run/ckpt --json | jq '.checkpoints[].statistics.total_seconds'\n"
      "  cairn stats run/ckpt --openmetrics >cairn.tmp && mv cairn.tmp /var/lib/node/cairn.prom");
  command->callback([&tool, options] {
    const auto directory = require_directory(tool.at(options->directory).view());
    std::vector<NodeSave> saves;
    if (!options->tier.tier.empty()) {
      saves = node_saves(directory, options->tier.tier, options->tier.nodes);
    }
    if (options->open_metrics) {
      const auto path = io::absolute_path(directory.path()).string();
      const auto text = open_metrics(path, measure(directory, saves));
      return to_output("", [&](std::ostream& out) { out << text; });
    }
    const auto rows = collect(directory);
    double home = 0;
    for (const auto& row : rows) home = std::max(home, row.meta.wall_time_seconds);
    const auto risk = risk_of(home, saves);
    const auto failures = failures_in(directory);
    if (tool.json) {
      auto json = json_of(directory.path(), rows);
      json["failures"] = json_of(failures);
      if (!options->tier.tier.empty()) json["on_nodes"] = json_of(saves, risk);
      return print_json(json);
    }
    if (rows.empty()) {
      print_line(cat("no checkpoints of Cairn in ", directory.string()));
    } else {
      print(rows);
    }
    if (!options->tier.tier.empty()) print(saves, risk);
    print_failures(failures, newest_of(rows));
  });
}

}  // namespace cairn::cli
