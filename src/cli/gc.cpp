// cairn gc does what a new owner of the directory would do, without a job.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "cairn/log.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "session/schedule/run_history.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/recovery.hpp"
#include "store/directory/retention.hpp"
#include "store/nodes/tidy_node.hpp"
#include "store/store.hpp"

namespace cairn::cli {
namespace {

struct GcArguments {
  std::string directory, name, tier, node;
  bool dry_run = false, sole_writer = false;
  int max_to_keep = -1;  // -1: not given
  Retention keep;
};

// The name to which this entry belongs, if a save that did not finish left it.
std::optional<commit::Naming> name_of_unfinished(const std::string& entry) {
  const auto at = std::max(entry.rfind("_temp_") + 1, entry.rfind(".part_") + 1);
  const auto prefix = at == 0 ? entry : entry.substr(0, at - 1);
  const auto split = commit::split_step(prefix);
  const auto naming = split ? commit::Naming(split->name) : commit::Naming(prefix, false);
  const bool is_one =
      commit::parse_name(entry, naming).kind == commit::ParsedName::Kind::temp_directory;
  return is_one ? std::optional(naming) : std::nullopt;
}

// The names under which Cairn has saved here, or tried to. Files that only other programs made are
// not touched.
std::vector<commit::Naming> our_names(const Address& directory) {
  if (auto* list = step_list_of(*directory.files())) {
    return list->names_in(directory.path());
  }
  std::set<std::string> names, single;
  const auto add = [&](const commit::Naming& naming) {
    (naming.numbered ? names : single).insert(naming.name);
  };
  for (const auto& entry : directory.list()) {
    if (const auto naming = name_of_unfinished(entry)) add(*naming);
  }
  const auto recycled =
      directory / commit::private_directory_name / commit::recycled_directory_name;
  if (recycled.exists()) {
    for (const auto& entry : recycled.list()) {
      if (const auto parsed = commit::parse_recycled_name(entry)) add(parsed->naming);
    }
  }
  for (const auto& prefix : list_prefixes(directory)) {
    const auto split = commit::split_step(prefix);
    if (!split || names.contains(split->name)) continue;
    try {
      if (!open_checkpoint(directory / prefix)->own.empty()) names.insert(split->name);
    } catch (const Error&) {
      // This one is damaged; another entry of the name may tell.
    }
  }
  std::vector<commit::Naming> all(names.begin(), names.end());
  for (const auto& name : single) all.emplace_back(name, false);
  return all;
}

// Prints what is done, or would be done. As JSON it is printed at the end, even after an error.
class Told {
 public:
  Told(std::string directory, bool dry_run, bool json)
      : directory_(std::move(directory)), dry_run_(dry_run), json_(json) {}
  ~Told() {
    if (!json_) return;
    Json all{{"directory", directory_}, {"dry_run", dry_run_}, {"actions", std::move(actions_)}};
    if (!left_.empty()) all["left"] = std::move(left_);
    print_json(all);
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  void add(const char* action, const std::string& entry, const std::string& why,
           std::optional<std::int64_t> bytes = std::nullopt) {
    if (!json_) {
      return print_line(cat(dry_run_ ? "would " : "", action, ' ', entry,
                            bytes ? cat(", ", bytes_text(static_cast<double>(*bytes))) : "", " (",
                            why, ")"));
    }
    actions_.push_back({{"action", action}, {"entry", entry}, {"why", why}});
    if (bytes) actions_.back()["bytes"] = *bytes;
  }
  void leave(const std::string& why) {
    if (!json_) return print_line(cat("keep ", why));
    left_.push_back(why);
  }
  void nothing(const std::string& where) const {
    if (!json_) print_line(cat("nothing to do ", where));
  }

 private:
  std::string directory_;
  bool dry_run_, json_;
  Json actions_ = Json::array(), left_ = Json::array();
};

// Does what a new owner does first. Returns false if some of it lacked room.
bool clear_up(const Location& place, const Readers& readers, const commit::Ownership& owner,
              bool again = false) {
  const auto found = recover(place, readers, &owner);
  if (!(found.any || again) || !place.naming.numbered) return found.not_completed.empty();
  try {
    update_state_file(place, scan_catalog(place), &owner);
  } catch (const Error& error) {
    if (error.code() != Code::no_space) throw;
    log(LogLevel::warning, cat("the state file is not up to date: ", error.what()));
    return false;
  }
  return found.not_completed.empty();
}

// Removes what the given rules let go, or only lists it in a dry run. Returns whether there was
// anything.
bool retire(const Location& place, const GcArguments& options, const commit::Ownership* owner,
            Told& told) {
  auto catalog = scan_catalog(place);
  tell_in_vain(place, catalog);
  auto keep = options.keep;
  keep.last = options.max_to_keep;
  const auto decisions = decide_retention(catalog, keep);
  std::vector<std::int64_t> gone;
  if (!options.dry_run) {
    gone = apply_retention(place, catalog, keep, *owner);
  }
  bool any = false;
  for (const auto& one : decisions) {
    const bool goes =
        options.dry_run ? !one.stays : std::find(gone.begin(), gone.end(), one.step) != gone.end();
    any = any || goes;
    if (!goes && !options.dry_run) continue;
    told.add(goes ? "remove" : "keep", commit::prefix_name(place.naming, one.step), one.why);
  }
  return any;
}

void run_on_node(Tool& tool, const GcArguments& options) {
  const auto done = tidy_node(tool.at(options.tier), options.node, options.dry_run);
  Told told(options.tier, options.dry_run, tool.json);
  for (const auto& one : done.gone) told.add("remove", one.path.string(), one.why, one.bytes);
  for (const auto& why : done.left) told.leave(why);
  if (done.gone.empty() && done.left.empty()) told.nothing("on this node");
}

void tell_owner(const std::string& owner) {
  if (owner.empty()) return;
  log(LogLevel::warning, cat("the directory is or was owned by ", owner,
                             ": what that is saving now is listed too, and gc refuses while it "
                             "runs"));
}

// Cleans up one name. Returns whether there was anything to do. Without an owner it only prints it.
bool collect(const Location& place, const Readers& readers, const GcArguments& options,
             const commit::Ownership* owner, Told& told) {
  const auto steps = plan_recovery(place, readers);
  for (const auto& step : steps) {
    told.add(step.completes ? "complete" : "remove", step.entry, step.why);
  }
  bool any = !steps.empty();
  const auto lacked_room = !options.dry_run && !clear_up(place, readers, *owner);
  if (options.max_to_keep >= 0 && place.naming.numbered) {
    any |= retire(place, options, owner, told);
  }
  if (lacked_room) clear_up(place, readers, *owner, true);
  return any;
}

// The store of a place that is no directory, owned unless in a dry run.
std::unique_ptr<Store> take_store(const Location& place, const GcArguments& options) {
  auto* const lists = step_list_of(*place.files);
  if (options.dry_run) tell_owner(lists->owner_of(place));
  auto store = make_store(place, dynamic_cast<io::FileSystem*>(lists));
  Policy policy;
  policy.read_only = options.dry_run;
  policy.sole_writer = options.sole_writer;
  policy.keep = options.keep;
  policy.keep.last = std::max(options.max_to_keep, 0);
  store->set_policy(policy);
  store->take();
  return store;
}

// The same by such a store.
bool collect_in_store(const Location& place, const Readers& readers, const GcArguments& options,
                      Told& told) {
  const auto store = take_store(place, options);
  auto found = store->recover(readers);
  bool any = !found.completed.empty() || !found.removed.empty();
  for (const auto& one : found.completed) told.add("complete", one.entry, one.why);
  for (const auto& one : found.removed) told.add("remove", one.entry, one.why);
  store->begin(std::move(found));
  if (options.max_to_keep < 0 || !place.naming.numbered) return any;
  const auto decisions = store->preview_retention(std::nullopt, std::nullopt);
  const auto steps = store->history().choices().steps;
  if (!options.dry_run && !steps.empty()) {
    store->remove_surplus(steps.front(), {});
    store->history().apply_tidied();
  }
  for (const auto& one : decisions) {
    const bool goes = !one.stays && (options.dry_run || !store->history().find(one.step));
    any = any || goes;
    if (!goes && !options.dry_run) continue;
    told.add(goes ? "remove" : "keep", commit::prefix_name(place.naming, one.step), one.why);
  }
  return any;
}

void run(Tool& tool, const GcArguments& options) {
  if (!options.tier.empty()) return run_on_node(tool, options);
  if (options.directory.empty()) {
    throw Error(Code::invalid_argument, "no directory is given", "",
                "Name one of checkpoints, or that of the nodes with --local.");
  }
  const auto directory = require_directory(tool.at(options.directory));
  const auto names =
      options.name.empty() ? our_names(directory) : std::vector<commit::Naming>{options.name};
  const bool is_directory = !step_list_of(*directory.files());
  std::optional<commit::Ownership> ownership;
  if (!is_directory) {
    // Each name has an owner.
  } else if (options.dry_run) {
    const auto owner = commit::read_owner(directory);
    tell_owner(owner ? commit::describe(*owner) : "");
  } else if (!names.empty()) {
    constexpr double wait_seconds = 2;  // a dying process holds its lock for a moment
    commit::OwnershipOptions taking;
    taking.may_lack_record = true;
    ownership = commit::Ownership::take(directory, wait_seconds, taking);
  }
  bool any = false;
  Told told(directory.string(), options.dry_run, tool.json);
  const auto group = serial_group();
  const Readers readers{*group, {0}};
  for (const auto& naming : names) {
    commit::check_checkpoint_name(naming.name);
    if (!is_directory) {
      const auto place = location_of(directory, naming);
      any |= collect_in_store(place, readers, options, told);
      continue;
    }
    const auto place =
        location_of(directory, naming,
                    ownership ? ownership->atomic_rename() : !commit::says_no_rename(directory));
    any |= collect(place, readers, options, ownership ? &*ownership : nullptr, told);
  }
  if (!any) told.nothing(cat("in ", directory.string()));
}

}  // namespace

void add_gc(Tool& tool) {
  auto options = std::make_shared<GcArguments>();
  auto* command = tool.app.add_subcommand("gc", "Clean up after saves that did not finish");
  auto* where = command->add_option("DIR", options->directory, "Checkpoint directory");
  auto* tier = command->add_option("--local", options->tier,
                                   "Clean this node's TIER_DIR instead (--tier of other "
                                   "commands)");
  tier->type_name("TIER_DIR")->excludes(where);
  command->add_option("--node", options->node, "This node's name in the job (CAIRN_NODE)")
      ->needs(tier);
  command->add_flag("--dry-run", options->dry_run, "Only say what would be done");
  command->add_flag("--sole-writer", options->sole_writer,
                    "In a bucket without conditional puts: no job saves there meanwhile");
  command->add_option("--name", options->name,
                      "Only checkpoints NAME-STEP; default: all that Cairn saved");
  auto* most = command->add_option("--max-to-keep", options->max_to_keep,
                                   "Keep only so many of the newest (0: all)");
  most->check(whole_number());
  command
      ->add_option("--keep-every-steps", options->keep.every_steps, "Multiples of this step stay")
      ->needs(most)
      ->check(whole_number());
  command->add_option("--keep-every-hours", options->keep.every_hours, "One in so many hours stays")
      ->needs(most)
      ->check(CLI::NonNegativeNumber);
  command->add_option("--keep-best", options->keep.best, "So many of the best by metric stay")
      ->needs(most)
      ->check(whole_number());
  command
      ->add_flag("--larger-is-better", options->keep.larger_is_better, "Larger metrics are better")
      ->needs(most);
  add_json(*command, tool);
  command->footer(
      "Completes a save whose job died after all its bytes were durable, and removes what\n"
      "unfinished saves left, as a job does when it opens the directory. It refuses while a job\n"
      "saves there, and works on a full disk. Committed checkpoints and files of other programs\n"
      "stay.\n"
      "With --max-to-keep it removes committed checkpoints as a job with these options would,\n"
      "but not the newest and pinned ones.\n"
      "--local removes this node's files of unfinished saves, and of runs whose directory was\n"
      "removed or made anew.\n\n"
      "Examples:\n"
      "  cairn gc run/ckpt --dry-run\n"
      "  cairn gc run/ckpt --max-to-keep 3 --keep-every-steps 1000 --dry-run\n"
      "  srun --ntasks-per-node=1 cairn gc --local /dev/shm/$USER/cairn");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
