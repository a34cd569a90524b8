// cairn ls lists the checkpoints of a directory.
#include <algorithm>
#include <chrono>
#include <map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/failures.hpp"
#include "cli/print.hpp"
#include "cli/step_lists.hpp"
#include "cli/target.hpp"
#include "model/application_text.hpp"
#include "session/schedule/run_history.hpp"
#include "store/commit/names.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/format.hpp"
#include "store/contents/given_back.hpp"
#include "store/contents/whose.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/named_checkpoint.hpp"
#include "store/location.hpp"
#include "store/nodes/save_map.hpp"
#include "tools/node_saves.hpp"

namespace cairn::cli {
namespace {

struct Row {
  std::string name, prefix;
  std::optional<std::int64_t> step;
  CatalogEntry entry;
  bool newest = false;
  std::int64_t bytes = 0;
  std::int64_t shared_bytes = 0;  // bytes of data files that have other names too
  bool set_aside = false;         // its removal did not finish
  std::int64_t in_vain = 0;       // how many runs restored it and got no further
};

struct DataFile {
  std::string name;
  std::int64_t count;
};
using DataFiles = std::map<std::int64_t, std::vector<DataFile>>;  // by step

// All data files with this name.
DataFiles data_files(const std::vector<std::string>& listing, const std::string& name) {
  DataFiles files;
  for (const auto& entry : listing) {
    const auto parsed = commit::parse_name(entry, name);
    if (parsed.kind != commit::ParsedName::Kind::data) continue;
    files[parsed.step].push_back({entry, parsed.count});
  }
  return files;
}

// Adds the sizes of the index and of its data files. Returns whether the index is there.
bool add_sizes(const Address& directory, Row& row, const DataFiles& data) {
  const auto add = [&](const std::string& name) {
    const auto status = (directory / name).status();
    if (!status) return false;
    // Tensors that were removed from the middle of a file have left holes, encoded chunks too.
    const bool has_holes =
        !row.entry.thinned.empty() || !format_of(row.entry.format).has_data_files();
    row.bytes += has_holes ? bytes_without_holes(*status) : status->size;
    if (status->names > 1) row.shared_bytes += status->size;
    return true;
  };
  const auto& format = format_of(row.entry.format);
  const bool is_there = add(format.main_file(row.prefix).string());
  if (!format.has_data_files()) return is_there;
  if (!row.step) {
    try {
      for (const auto& [file, size] : load_index(directory / row.prefix).data_sizes) {
        row.bytes += size;
      }
    } catch (const Error& error) {
      if (error.code() == Code::unavailable) throw;
      // A damaged index names no data files. The state column says that it is damaged.
    }
    return is_there;
  }
  const auto own = data.find(*row.step);
  if (own == data.end()) return is_there;
  for (const auto& file : own->second) {
    if (row.entry.num_files == 0 || file.count == row.entry.num_files) add(file.name);
  }
  return is_there;
}

// Reads a checkpoint whose name has no step.
Row look_at(const Address& directory, const std::string& prefix, const std::string& newest) {
  Row row{prefix, prefix, std::nullopt, {}, prefix == newest, 0};
  try {
    if (const auto status = (directory / commit::index_name(prefix)).status()) {
      row.entry.save.wall_time_seconds = status->modified_seconds;
    }
    auto loaded = load_index(directory / prefix);
    const auto contents = parse_contents(loaded, directory.path() / prefix);
    row.entry.num_files = contents.num_files;
    row.entry.format = contents.format;
    row.entry.other = other_format(directory / prefix, contents.format);
    row.entry.damage = loaded.foreign;
    if (contents.meta) row.entry.save.application = contents.meta->application;
    if (row.entry.damage.empty() && lacks_metadata(contents)) {
      row.entry.damage = cat("its metadata cannot be read: ", loaded.meta_problem);
    }
    for (const auto& tensor : contents.tensors) {
      if (!row.entry.damage.empty() || tensor.problem.empty()) continue;
      row.entry.damage = cat("tensor ", shown_key(tensor.key), ": ", tensor.problem);
    }
  } catch (const Error& error) {
    if (error.code() == Code::unavailable) throw;
    row.entry.damage = error.what();
  }
  return row;
}

// `any_gone`: a step was removed while its sizes were looked at.
std::vector<Row> collect_once(const Address& directory, const std::string& only, bool& any_gone) {
  std::string newest;
  if (const auto state = commit::read_state_file(directory)) {
    newest = io::Path(state->model_checkpoint_path).filename().string();
  }
  std::map<std::string, std::vector<std::string>> groups;  // prefixes without a step, by name
  for (const auto& prefix : list_prefixes(directory)) {
    const auto split = commit::split_step(prefix);
    auto& group = groups[split ? split->name : prefix];
    if (!split) group.push_back(prefix);
  }
  std::vector<Row> rows;
  for (const auto& [name, without_step] : groups) {
    if (!only.empty() && name != only) continue;
    const auto before = static_cast<std::ptrdiff_t>(rows.size());
    for (const auto& prefix : without_step) {
      rows.push_back(look_at(directory, prefix, newest));
    }
    auto catalog = scan_catalog(location_of(directory, name));
    const auto in_vain = tell_in_vain(location_of(directory, name), catalog);
    const auto live = restorable(catalog);
    for (const auto& entry : catalog) {
      rows.push_back({name, commit::prefix_name(name, entry.step), entry.step, entry,
                      !live.empty() && live.front() == &entry, 0});
      if (const auto at = in_vain.find(entry.step); at != in_vain.end()) {
        rows.back().in_vain = at->second;
      }
    }
    // Listed only now, so that the files of what has just been saved are there. What was removed
    // meanwhile is left out.
    const auto data = data_files(directory.list(), name);
    for (auto row = rows.begin() + before; row != rows.end();) {
      const bool stays = add_sizes(directory, *row, data) || !row->entry.damage.empty();
      any_gone |= !stays;
      row = stays ? row + 1 : rows.erase(row);
    }
  }
  return rows;
}

// A job may have removed all that were listed: then there are newer ones.
std::vector<Row> collect(const Address& directory, const std::string& only) {
  std::vector<Row> rows;
  bool any_gone = true;
  for (int looks = 64; any_gone && rows.empty() && looks > 0; --looks) {
    any_gone = false;
    rows = collect_once(directory, only, any_gone);
  }
  return rows;
}

std::string pin_text(const Row& row) {
  return row.entry.pin == Pin::damaged ? "pinned (by a damaged pin)" : "pinned";
}

std::string mark_text(const Row& row) {
  const auto& noted = row.entry.not_finite;
  const bool turned = noted && !noted->turned.empty();
  return cat(row.entry.mark == StepMark::bad ? ", marked bad" : "",
             turned ? cat(", '", noted->turned.front(), "' is not finite any more") : "",
             row.in_vain == 0 ? "" : cat(", restored in vain: ", row.in_vain));
}

// The main file of the other format, if it is there; it is not read.
std::string other_file(const Row& row) {
  return row.entry.other ? format_of(*row.entry.other).main_file(row.prefix).string() : "";
}

std::string thinned_text(const CatalogEntry& entry) {
  std::string text;
  for (const auto& one : entry.thinned) text += cat(text.empty() ? "'" : ", '", one.keys, "'");
  return text;
}

std::string state_text(const Row& row) {
  const auto twice = row.entry.other ? cat("twice: ", other_file(row), " too") : "";
  const auto* aside = row.set_aside ? "its removal did not finish, " : "";
  if (!row.entry.damage.empty()) {
    return cat(aside, row.entry.superseded ? "superseded, " : "",
               row.entry.pin != Pin::none ? pin_text(row) + ", " : "",
               twice.empty() ? "" : twice + ", ", "damaged: ", row.entry.damage);
  }
  return cat(
      aside, "whole", row.newest ? ", newest" : "", row.entry.superseded ? ", superseded" : "",
      row.entry.pin != Pin::none ? ", " + pin_text(row) : "", mark_text(row),
      row.entry.save.metric ? cat(", metric ", *row.entry.save.metric) : "",
      twice.empty() ? "" : ", " + twice,
      row.entry.thinned.empty() ? "" : cat(", without ", thinned_text(row.entry)),
      row.shared_bytes == 0 ? ""
                            : cat(", shares ", bytes_text(static_cast<double>(row.shared_bytes))));
}

void print_rows(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> table;
  std::string name;
  const auto flush = [&] {
    if (table.empty()) return;
    table.insert(table.begin(), {"step", "size", "saved", "ranks", "by", "state"});
    // The column is left out if no program gives its name, as most do not.
    const auto says = [](const auto& cells) { return cells[4] != "-" && cells[4] != "by"; };
    if (std::none_of(table.begin(), table.end(), says)) {
      for (auto& cells : table) cells.erase(cells.begin() + 4);
    }
    print_line(name);
    print_table(table, "  ", {0, 1, 3});
    table.clear();
  };
  for (const auto& row : rows) {
    if (row.name != name) {
      flush();
      name = row.name;
    }
    const auto by = application_text(row.entry.save.application);
    table.push_back({row.step ? cat(*row.step) : "-", bytes_text(static_cast<double>(row.bytes)),
                     local_time(row.entry.save.wall_time_seconds),
                     row.entry.save.ranks > 0 ? cat(row.entry.save.ranks) : "-",
                     by.empty() ? "-" : by, state_text(row)});
  }
  flush();
}

// For each name, when its newest checkpoint that can be restored was saved.
std::map<std::string, double> newest_of(const std::vector<Row>& rows) {
  std::map<std::string, double> newest;
  for (const auto& row : rows) {
    if (!row.entry.damage.empty() || row.entry.superseded) continue;
    auto& seconds = newest[row.name];
    seconds = std::max(seconds, row.entry.save.wall_time_seconds);
  }
  return newest;
}

// Parses "90s", "30m", "2h" or "1d". Returns -1 for anything else.
double seconds_of(const std::string& age) {
  static const std::map<char, double> units{{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const auto unit = age.empty() ? units.end() : units.find(age.back());
  double count = -1;
  if (unit == units.end() || !parse_number(age.substr(0, age.size() - 1), count)) return -1;
  return count >= 0 ? count * unit->second : -1;
}

// Returns whether no checkpoint that can be restored is new enough.
bool is_too_old(double most_seconds, const std::map<std::string, double>& newest,
                const std::vector<NodeSave>& saves) {
  double last = 0;
  for (const auto& [name, seconds] : newest) last = std::max(last, seconds);
  for (const auto& save : saves) {
    if (save.margin >= 0 && !save.superseded) last = std::max(last, save.time);
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count() - last > most_seconds;
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
    item["shared_bytes"] = row.shared_bytes;
    item["num_files"] = entry.num_files;
    item["time_seconds"] = entry.save.wall_time_seconds;
    item["time"] = utc_time(entry.save.wall_time_seconds);
    item["ranks"] = entry.save.ranks > 0 ? Json(entry.save.ranks) : Json();
    item["sequence"] = entry.save.sequence > 0 ? Json(entry.save.sequence) : Json();
    item["newest"] = row.newest;
    item["superseded"] = entry.superseded;
    item["pinned"] = entry.pin != Pin::none;
    item["marked_bad"] = entry.mark == StepMark::bad;
    item["restored_in_vain"] = row.in_vain;
    item["set_aside"] = row.set_aside;
    item["other_file"] = entry.other ? Json(other_file(row)) : Json();
    item["metric"] =
        entry.save.metric ? Json(*entry.save.metric) : Json();  // NaN and infinities become null
    item["application"] = application_json(entry.save.application);
    item["thinned"] = Json::array();
    for (const auto& one : entry.thinned) item["thinned"].push_back(one.keys);
    item["whole"] = entry.damage.empty();
    item["damage"] = entry.damage.empty() ? Json() : Json(entry.damage);
    list.push_back(std::move(item));
  }
  return {{"directory", directory.string()}, {"checkpoints", std::move(list)}};
}

// Says how much is seen from here of a save on nodes, or of one that was copied from them.
std::string seen_text(const NodeSave& save) {
  const auto seen =
      cat("on nodes: ", save.nodes_seen, " of ", save.nodes, " seen",
          save.not_seen.empty() ? "" : cat(" (not ", tier::some_of(save.not_seen), ")"),
          save.nodes_brought > 0 ? cat(", ", save.nodes_brought, " of these brought home") : "");
  const auto margin = save.margin < 0 ? std::string()
                      : save.margin == 0
                          ? ", whole"
                          : cat(", whole, of a set ", save.margin, " more may be lost");
  return cat(seen, margin, save.is_home ? ", at home too" : "",
             save.superseded ? ", superseded" : "");
}

void print_nodes(const std::vector<NodeSave>& saves) {
  std::vector<std::vector<std::string>> table;
  std::string name;
  for (std::size_t i = 0; i < saves.size(); ++i) {
    const auto& save = saves[i];
    if (save.name != name) print_line(name = save.name);
    table.push_back({cat(save.step), bytes_text(static_cast<double>(save.bytes)), cat(save.ranks),
                     local_time(save.time), seen_text(save)});
    if (i + 1 < saves.size() && saves[i + 1].name == name) continue;
    table.insert(table.begin(), {"step", "size", "ranks", "saved", "state"});
    print_table(table, "  ", {0, 1, 2});
    table.clear();
  }
}

Json json_of(const std::vector<NodeSave>& saves) {
  Json list = Json::array();
  for (const auto& save : saves) {
    list.push_back({{"name", save.name},
                    {"step", save.step},
                    {"sequence", save.sequence},
                    {"ranks", save.ranks},
                    {"nodes", save.nodes},
                    {"nodes_seen", save.nodes_seen},
                    {"not_seen", save.not_seen},
                    {"nodes_brought_home", save.nodes_brought},
                    {"time_seconds", save.time},
                    {"bytes", save.bytes},
                    {"whole", save.margin >= 0},
                    {"margin", save.margin >= 0 ? Json(save.margin) : Json()},
                    {"at_home", save.is_home},
                    {"superseded", save.superseded}});
  }
  return list;
}

// Marks the saves on nodes that are in the directory too.
void mark_home(std::vector<NodeSave>& saves, const std::vector<Row>& rows) {
  for (auto& save : saves) {
    save.is_home = std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
      return row.name == save.name && row.entry.save.sequence == save.sequence;
    });
  }
}

// The other names that are there, if the name that was asked for does not exist.
std::string other_names(const Address& directory, const std::string& name) {
  if (name.empty()) return "";
  std::string all;
  for (const auto& one : names_of(list_prefixes(directory)))
    all += (all.empty() ? "; there are those of " : ", ") + one;
  return cat(" of the name ", name, all);
}

// In a bucket a job leaves no note of a save that it could not finish.
void print_none(const Address& directory, const std::string& name) {
  auto* const lists = step_list_of(*directory.files());
  const bool has_list = lists && !lists->names_in(directory.path()).empty();
  print_line(
      cat("no checkpoints in ", directory.string(), other_names(directory, name),
          has_list ? cat("; cairn gc ", directory.string(), " --dry-run ", what_gc_tells) : ""));
}

}  // namespace

void add_ls(Tool& tool) {
  struct Options {
    std::string directory, name, max_age;
    TierOption tier;
  };
  auto options = std::make_shared<Options>();
  auto* command = tool.app.add_subcommand("ls", "List the checkpoints of a directory");
  command->add_option("DIR", options->directory, "Checkpoint directory")->required();
  command->add_option("--name", options->name, "Only the checkpoints NAME-STEP and NAME");
  add_tier(*command, options->tier,
           "Also list the checkpoints in this directory of the nodes "
           "(the job's tier)");
  command
      ->add_option("--max-age", options->max_age,
                   "Exit with 1 unless a whole checkpoint is this new by this host's clock: 90s, "
                   "30m, 2h, 1d")
      ->check(CLI::Validator(
          [](std::string& text) { return seconds_of(text) < 0 ? text + " is no age" : ""; },
          "AGE"));
  add_json(*command, tool);
  command->footer(
      "In commit order, newest last. \"whole\": index and file lengths are sound, and no\n"
      "restore found damage; cairn verify reads every byte. \"superseded\": a run restored an\n"
      "older one and saved again. \"twice\": in both formats; the one committed later is read,\n"
      "or the bundle if that is unknown; both stay until the step is saved again or removed.\n"
      "\"its removal did not finish\": no restore takes it until the next owner (a job or cairn\n"
      "gc) puts it back. \"shares\": bytes in files with other names, such as frozen tensors.\n"
      "\"by\": the program, its version and commit. \"-\": unknown, or no step in the name.\n"
      "--tier adds checkpoints on nodes, newest first, seen from here or copied to DIR by\n"
      "cairn flush. The last line reports failed saves.\n\n"
      "Examples:\n"
      "  cairn ls run/ckpt\n"
      "  cairn ls run/ckpt --max-age 2h || mail -s 'no new checkpoint' me </dev/null\n"
      "  cairn ls run/ckpt --json | jq '.checkpoints[] | select(.newest).prefix'");
  command->callback([&tool, options] {
    const auto directory = require_directory(tool.at(options->directory).view());
    const auto given_back = std::make_shared<GivenBack>(directory);
    auto rows = collect({given_back, directory.path()}, options->name);
    for (auto& row : rows) row.set_aside = given_back->is_set_aside(row.prefix);
    std::vector<NodeSave> saves;
    if (!options->tier.tier.empty()) {
      saves = node_saves(directory, options->tier.tier, options->tier.nodes);
      if (!options->name.empty()) {
        std::erase_if(saves, [&](const auto& one) { return one.name != options->name; });
      }
      mark_home(saves, rows);
    }
    const auto failures = failures_in(directory, options->name);
    const auto newest = newest_of(rows);
    const auto beside = beside_lists(directory, options->name);
    const auto lists = damaged_lists(directory, options->name);
    if (!options->max_age.empty()) {
      const bool old = is_too_old(seconds_of(options->max_age), newest, saves);
      if (old) tool.exit_code = 1;
    }
    if (tool.json) {
      auto json = json_of(directory.path(), rows);
      json["failures"] = json_of(failures);
      auto& besides = json["beside_the_list"] = Json::array();
      for (const auto& one : beside) {
        besides.push_back({{"prefix", one.prefix}, {"whole", one.damage.empty()}});
      }
      json["damaged_lists"] = lists;
      if (!options->tier.tier.empty()) json["on_nodes"] = json_of(saves);
      return print_json(json);
    }
    if (rows.empty()) print_none(directory, options->name);
    print_rows(rows);
    print_beside(directory, beside);
    for (const auto& one : lists) print_line(cat(one, " is damaged: ", what_damaged_lists_do));
    print_nodes(saves);
    print_failures(failures, newest);
  });
}

}  // namespace cairn::cli
