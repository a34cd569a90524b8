#include "cli/target.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "io/local_path.hpp"
#include "session/restore/find_tensor.hpp"
#include "store/commit/names.hpp"

namespace cairn::cli {

const StoredTensor& require_tensor(const CheckpointContents& contents, const std::string& key) {
  if (const auto* tensor = TensorFinder(contents).find(key)) return *tensor;
  for (const auto& tensor : contents.own) {
    if (tensor.key == key) return tensor;
  }
  Nearest nearest(key);
  offer_keys(contents, nearest);
  const auto meant = did_you_mean(nearest);
  throw Error(Code::not_found, cat("there is no tensor ", shown_key(key), " in ", contents.prefix),
              cat("it holds ", contents.tensors.size(), " tensors under other keys"),
              cat(meant, meant.empty() ? "" : " ", "cairn show lists their keys."))
      .of_tensor(key);
}

OpenCheckpoint open_named(const Address& given) {
  return with_checkpoint(
      given, [](const Address& prefix) { return open_checkpoint(prefix, Graph::read); });
}

Address require_parent(const Address& given) {
  auto path = given.at(io::local_path(given.path()));
  const auto parent = path.directory();
  // Where there is no directory, none can be missing.
  if (step_list_of(*path.files())) return path;
  if (!path.path().has_parent_path() || parent.is_directory()) return path;
  throw Error(Code::not_found, cat("there is no directory ", parent.string()),
              cat("the new checkpoint would be ", path.string()),
              "Check the name, or make the directory first (mkdir -p).")
      .at(parent.string());
}

Address require_directory(const Address& given) {
  auto directory = given.at(io::local_path(given.path()));
  const auto text = directory.string();
  const auto status = directory.status();
  if (!status) throw Error(Code::not_found, cat("there is no directory ", text)).at(text);
  if (!status->is_directory) {
    throw Error(Code::invalid_argument, cat(text, " is no directory")).at(text);
  }
  return directory;
}

CLI::Validator whole_number() {
  return {[](std::string& text) {
            std::int64_t value = 0;
            const bool sound = parse_number(text, value) && value >= 0;
            return sound ? "" : cat(text, " is no whole number from 0 on");
          },
          "NONNEGATIVE"};
}

CLI::Option* add_json(CLI::App& command, Tool& tool) {
  return command.add_flag("--json", tool.json, "Print JSON");
}

void add_tier(CLI::App& command, TierOption& option, const std::string& what) {
  auto* tier = command.add_option("--tier", option.tier, what);
  command.add_option("--node", option.nodes, "Names of nodes visible from here")->needs(tier);
}

// The one name that has this step.
std::string find_name(const Address& directory, std::int64_t step) {
  std::vector<std::string> names;
  for (const auto& prefix : list_prefixes(directory)) {
    const auto split = commit::split_step(prefix);
    if (split && split->step == step) names.push_back(split->name);
  }
  if (names.size() == 1) return names.front();
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + commit::prefix_name(name, step);
  throw Error(Code::not_found,
              names.empty() ? cat("there is no step ", step, " in ", directory.string())
                            : cat("step ", step, " is there under several names"),
              all, names.empty() ? "List what is there with cairn ls." : "Give --name.")
      .at(directory.string());
}

CatalogEntry find_entry(const Location& place, std::int64_t step) {
  auto catalog = scan_catalog(place);
  const auto entry = std::find_if(catalog.begin(), catalog.end(),
                                  [&](const auto& one) { return one.step == step; });
  if (entry != catalog.end()) return std::move(*entry);
  throw Error(Code::not_found,
              cat("there is no checkpoint ", commit::prefix_name(place.naming, step)), "",
              "List what is there with cairn ls.")
      .at(place.directory.string());
}

std::int64_t bytes_without_holes(const io::Status& file) {
  return file.allocated < 0 ? file.size : std::min(file.size, file.allocated);
}

}  // namespace cairn::cli
