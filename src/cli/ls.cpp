// cairn ls: the checkpoints of a directory.
#include <iostream>
#include <map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "commit/names.hpp"
#include "commit/state_file.hpp"
#include "contents/contents_reader.hpp"
#include "contents/format.hpp"
#include "contents/hdf5_reader.hpp"
#include "directory/catalog.hpp"

namespace cairn::cli {
namespace {

struct Row {
  std::string name, prefix;
  std::optional<std::int64_t> step;
  CatalogEntry entry;
  bool newest = false;
  std::int64_t bytes = 0;
};

// Of the index and the data files that belong to it.
std::int64_t size_on_disk(io::FileSystem& files, const io::Path& directory, const Row& row,
                          const std::vector<std::string>& listing) {
  std::int64_t bytes = 0;
  const auto add = [&](const std::string& name) {
    if (const auto status = files.status(directory / name)) bytes += status->size;
  };
  const auto& format = format_of(row.entry.format);
  add(format.main_file(row.prefix).string());
  if (!format.has_data_files()) return bytes;
  if (!row.step) {
    try {
      for (const auto& [file, size] : load_index(files, directory / row.prefix).data_sizes) {
        bytes += size;
      }
    } catch (const Error&) {
      // An index that cannot be read names no data files; the state column says so.
    }
    return bytes;
  }
  for (const auto& name : listing) {
    const auto parsed = commit::parse_name(name, row.name);
    const bool own = parsed.kind == commit::ParsedName::Kind::data && parsed.step == *row.step &&
                     (row.entry.num_files == 0 || parsed.count == row.entry.num_files);
    if (own) add(name);
  }
  return bytes;
}

// A checkpoint whose name carries no step.
Row look_at(io::FileSystem& files, const io::Path& directory, const std::string& prefix,
            const std::string& newest) {
  Row row{prefix, prefix, std::nullopt, {}, prefix == newest, 0};
  try {
    if (const auto status = files.status(directory / commit::index_name(prefix))) {
      row.entry.save.wall_time_seconds = status->modified_seconds;
    }
    const auto contents = read_contents(files, directory / prefix);
    row.entry.num_files = contents.num_files;
    row.entry.format = contents.format;
    for (const auto& tensor : contents.tensors) {
      if (!row.entry.damage.empty() || tensor.problem.empty()) continue;
      row.entry.damage = cat("tensor ", shown_key(tensor.key), ": ", tensor.problem);
    }
  } catch (const Error& error) {
    row.entry.damage = error.what();
  }
  return row;
}

std::vector<Row> collect(io::FileSystem& files, const io::Path& directory,
                         const std::string& only) {
  const auto listing = files.list(directory);
  std::string newest;
  if (const auto state = commit::read_state_file(files, directory)) {
    newest = io::Path(state->model_checkpoint_path).filename().string();
  }
  std::map<std::string, std::vector<std::string>> groups;  // name → prefixes without a step
  for (const auto& prefix : list_prefixes(files, directory)) {
    const auto split = commit::split_step(prefix);
    auto& group = groups[split ? split->name : prefix];
    if (!split) group.push_back(prefix);
  }
  std::vector<Row> rows;
  for (const auto& [name, without_step] : groups) {
    if (!only.empty() && name != only) continue;
    for (const auto& prefix : without_step) {
      rows.push_back(look_at(files, directory, prefix, newest));
    }
    const auto catalog = scan_catalog(files, directory, name);
    const auto live = restorable(catalog);
    for (const auto& entry : catalog) {
      rows.push_back({name, commit::prefix_name(name, entry.step), entry.step, entry,
                      !live.empty() && live.front() == &entry, 0});
    }
  }
  for (auto& row : rows) row.bytes = size_on_disk(files, directory, row, listing);
  return rows;
}

std::string pin_text(const Row& row) {
  return row.entry.pin == Pin::damaged ? "pinned (by a damaged pin)" : "pinned";
}

std::string state_text(const Row& row) {
  if (!row.entry.damage.empty()) {
    return cat(row.entry.superseded ? "superseded, " : "",
               row.entry.pin != Pin::none ? pin_text(row) + ", " : "",
               "damaged: ", row.entry.damage);
  }
  return cat("whole", row.newest ? ", newest" : "", row.entry.superseded ? ", superseded" : "",
             row.entry.pin != Pin::none ? ", " + pin_text(row) : "",
             row.entry.save.metric ? cat(", metric ", *row.entry.save.metric) : "");
}

void print_rows(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> table;
  std::string name;
  const auto flush = [&] {
    if (table.empty()) return;
    table.insert(table.begin(), {"step", "size", "saved", "ranks", "state"});
    std::cout << name << '\n';
    print_table(table, "  ", {0, 1, 3});
    table.clear();
  };
  for (const auto& row : rows) {
    if (row.name != name) {
      flush();
      name = row.name;
    }
    table.push_back({row.step ? cat(*row.step) : "-", bytes_text(static_cast<double>(row.bytes)),
                     local_time(row.entry.save.wall_time_seconds),
                     row.entry.save.ranks > 0 ? cat(row.entry.save.ranks) : "-", state_text(row)});
  }
  flush();
}

Json json_of(const io::Path& directory, const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const auto& row : rows) {
    const auto& entry = row.entry;
    Json item;
    item["name"] = row.name;
    item["step"] = row.step ? Json(*row.step) : Json();
    item["prefix"] = (directory / row.prefix).string();
    item["bytes"] = row.bytes;
    item["num_files"] = entry.num_files;
    item["time_seconds"] = entry.save.wall_time_seconds;
    item["time"] = utc_time(entry.save.wall_time_seconds);
    item["ranks"] = entry.save.ranks > 0 ? Json(entry.save.ranks) : Json();
    item["sequence"] = entry.save.sequence > 0 ? Json(entry.save.sequence) : Json();
    item["newest"] = row.newest;
    item["superseded"] = entry.superseded;
    item["pinned"] = entry.pin != Pin::none;
    item["metric"] =
        entry.save.metric ? Json(*entry.save.metric) : Json();  // NaN and infinities: null
    item["whole"] = entry.damage.empty();
    item["damage"] = entry.damage.empty() ? Json() : Json(entry.damage);
    list.push_back(std::move(item));
  }
  return {{"directory", directory.string()}, {"checkpoints", std::move(list)}};
}

}  // namespace

void add_ls(Tool& tool) {
  struct Options {
    std::string directory, name;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = tool.app.add_subcommand("ls", "List the checkpoints of a directory");
  command->add_option("DIR", options->directory, "Directory of checkpoints")->required();
  command->add_option("--name", options->name, "Only the checkpoints NAME-STEP and NAME");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "In the order in which they were committed, the newest last. \"whole\" here means that the\n"
      "index is sound and the data files are there and long enough, and that no restore has found\n"
      "them damaged; cairn verify reads every byte. \"superseded\": a restore went back to an\n"
      "earlier step and saved again. \"-\": not known, or no step in the name.\n\n"
      "Examples:\n"
      "  cairn ls run/ckpt\n"
      "  cairn ls run/ckpt --json | jq '.checkpoints[] | select(.newest).prefix'");
  command->callback([&tool, options] {
    const auto directory = require_directory(*tool.files, options->directory);
    const auto rows = collect(*tool.files, directory, options->name);
    if (options->json) return print_json(json_of(directory, rows));
    if (rows.empty()) std::cout << "no checkpoints in " << directory.string() << '\n';
    print_rows(rows);
  });
}

}  // namespace cairn::cli
