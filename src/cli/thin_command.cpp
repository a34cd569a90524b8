// cairn thin removes some tensors from older checkpoints and keeps the others.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "cli/command.hpp"
#include "cli/print.hpp"
#include "cli/progress_bar.hpp"
#include "cli/target.hpp"
#include "store/commit/names.hpp"
#include "store/contents/format.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/recovery.hpp"
#include "store/directory/thin.hpp"
#include "tools/verify.hpp"

namespace cairn::cli {
namespace {

struct ThinArguments {
  std::string directory, name;
  std::vector<std::string> keys;
  std::vector<std::int64_t> steps;
  int keep_newest = 2;
  bool pinned = false, dry_run = false;
};

constexpr double wait_seconds = 2;  // a dying process holds its lock for a moment

// The one name under which Cairn has numbered checkpoints here.
std::string find_name(const Address& directory) {
  std::set<std::string> names;
  for (const auto& prefix : list_prefixes(directory)) {
    if (const auto split = commit::split_step(prefix)) names.insert(split->name);
  }
  if (names.size() == 1) return *names.begin();
  std::string all;
  for (const auto& name : names) all += cat(all.empty() ? "" : ", ", name);
  throw Error(names.empty() ? Code::not_found : Code::invalid_argument,
              names.empty() ? cat("there is no numbered checkpoint in ", directory.string())
                            : cat("there are checkpoints of several names in ", directory.string()),
              all, names.empty() ? "List what is there with cairn ls." : "Give --name.")
      .at(directory.string());
}

// What is wrong with the bytes of a checkpoint; "" if nothing is.
std::string what_is_damaged(const Location& place, std::int64_t step) {
  ProgressBar bar(cat("verify ", commit::prefix_name(place.naming, step)));
  const auto found = verify_checkpoint({place.files, place.prefix(step)}, bar.callback());
  if (found.verdict() == Verdict::whole) return "";
  return found.findings.empty() ? "it has changed meanwhile" : found.findings.front().what;
}

// Prints what is done, or would be done. As JSON it is printed at the end.
class Told {
 public:
  Told(const ThinArguments& options, bool json) : options_(options), json_(json) {}

  void add(const std::string& prefix, const ThinPlan& plan) {
    bytes_ += plan.bytes;
    freed_bytes_ += plan.freed_bytes;
    if (json_) {
      done_.push_back({{"prefix", prefix}, {"tensors", plan.tensors}, {"bytes", plan.bytes}});
      return;
    }
    print_line(cat(
        options_.dry_run ? "would thin " : "thinned ", prefix, ": ", plan.tensors,
        plan.tensors == 1 ? " tensor, " : " tensors, ", bytes_text(static_cast<double>(plan.bytes)),
        plan.copied_bytes == 0 ? ""
                               : cat(" (", bytes_text(static_cast<double>(plan.copied_bytes)),
                                     " are written anew, in files that have other names)")));
    ++count_;
  }
  void keep(const std::string& prefix, const std::string& why) {
    if (!json_) return print_line(cat("keep ", prefix, " (", why, ")"));
    kept_.push_back({{"prefix", prefix}, {"why", why}});
  }
  void end() const {
    if (json_) {
      return print_json({{"directory", options_.directory},
                         {"dry_run", options_.dry_run},
                         {"thinned", done_},
                         {"kept", kept_},
                         {"bytes", bytes_},
                         {"freed_bytes", freed_bytes_}});
    }
    if (count_ == 0) return print_line(cat("nothing to thin in ", options_.directory));
    const auto stay = bytes_ - freed_bytes_;
    print_line(cat(bytes_text(static_cast<double>(freed_bytes_)),
                   options_.dry_run ? " would be" : " are", " given back to the disk",
                   stay == 0 ? ""
                             : cat("; ", bytes_text(static_cast<double>(stay)),
                                   " stay there, in files that have other names")));
  }

 private:
  const ThinArguments& options_;
  bool json_;
  Json done_ = Json::array(), kept_ = Json::array();
  std::int64_t bytes_ = 0, freed_bytes_ = 0;
  int count_ = 0;
};

std::string pattern_text(const std::vector<std::string>& keys) {
  std::string text;
  for (const auto& key : keys) text += cat(text.empty() ? "'" : ", '", key, "'");
  return text;
}

// The newest checkpoints that have all their tensors and whose every byte was checked. Damage that
// is found on the way is recorded.
std::set<std::int64_t> newest_proved(const Location& place, const ThinArguments& options,
                                     std::vector<CatalogEntry>& catalog) {
  std::set<std::int64_t> stay;
  for (const auto* entry : restorable(catalog)) {
    if (static_cast<int>(stay.size()) == options.keep_newest) break;
    const bool lacks = std::any_of(options.keys.begin(), options.keys.end(), [&](const auto& key) {
      return entry->find_thinned(key) != nullptr;
    });
    if (lacks) continue;
    const auto at = std::find_if(catalog.begin(), catalog.end(),
                                 [&](const auto& one) { return one.step == entry->step; });
    at->damage = what_is_damaged(place, entry->step);
    if (at->damage.empty()) stay.insert(entry->step);
  }
  return stay;
}

// Throws if no checkpoint has, or had, a tensor that matches: the pattern is probably mistyped.
void require_any(const Location& place, const ThinArguments& options,
                 const std::vector<CatalogEntry>& catalog) {
  const bool any = std::any_of(catalog.begin(), catalog.end(), [&](const auto& entry) {
    for (const auto& key : options.keys) {
      if (entry.find_thinned(key)) return true;
    }
    if (!entry.damage.empty() || !entry.ours || !format_of(entry.format).has_data_files()) {
      return true;  // this checkpoint is not read
    }
    try {
      return plan_thinning(place, entry.step, {options.keys, -1}).tensors > 0;
    } catch (const Error&) {
      return true;
    }
  });
  if (any) return;
  throw Error(
      Code::not_found,
      cat("no tensor in ", place.directory.string(), " is like ", pattern_text(options.keys)), "",
      "cairn show tells the keys.")
      .at(place.directory.string());
}

// Why nothing is removed from a checkpoint; "" if something may be.
std::string why_kept(const CatalogEntry& entry, const ThinArguments& options,
                     const std::set<std::int64_t>& stay) {
  if (stay.contains(entry.step)) {
    return cat("one of the newest ", options.keep_newest, " that have all");
  }
  if (!entry.damage.empty()) return cat("damaged: ", entry.damage);
  if (entry.pin != Pin::none && !options.pinned) return "pinned: --pinned thins it";
  if (!entry.ours) return "not saved by Cairn";
  return format_of(entry.format).has_data_files() ? "" : "an HDF5 file is one file";
}

void thin_directory(const Location& place, const ThinArguments& options,
                    const commit::Ownership* owner, bool json) {
  const ThinRequest request{options.keys, -1};
  auto catalog = scan_catalog(place);
  std::set<std::int64_t> asked(options.steps.begin(), options.steps.end());
  for (const auto step : options.steps) {
    const auto is_it = [&](const auto& entry) { return entry.step == step; };
    if (std::any_of(catalog.begin(), catalog.end(), is_it)) continue;
    throw Error(Code::not_found, cat("there is no step ", step, " in ", place.directory.string()),
                "", "List what is there with cairn ls.");
  }
  require_any(place, options, catalog);
  Told told(options, json);
  const auto stay = newest_proved(place, options, catalog);
  const bool explains = !options.steps.empty();
  for (const auto& entry : catalog) {
    const auto prefix = commit::prefix_name(place.naming, entry.step);
    if (explains && !asked.contains(entry.step)) continue;
    const auto why = why_kept(entry, options, stay);
    if (!why.empty()) {
      told.keep(prefix, why);
      continue;
    }
    const auto plan = owner ? thin(place, entry.step, request, *owner)
                            : plan_thinning(place, entry.step, request);
    if (plan.tensors > 0) {
      told.add(prefix, plan);
    } else if (explains) {
      told.keep(prefix, cat("it has no tensor like ", pattern_text(options.keys)));
    }
  }
  told.end();
}

void run(Tool& tool, const ThinArguments& options) {
  const auto directory = require_directory(tool.at(options.directory));
  const auto name = options.name.empty() ? find_name(directory) : options.name;
  commit::check_checkpoint_name(name);
  if (options.dry_run) {
    const auto place = location_of(directory, name, !commit::says_no_rename(directory));
    return thin_directory(place, options, nullptr, tool.json);
  }
  const auto owned =
      commit::OwnedName::take(directory.files(), directory.path(), name, wait_seconds);
  const auto place = location_of(directory, name, owned.atomic_rename());
  // A removal that a crash interrupted is finished first.
  finish_thinning(place, owned.ownership());
  const auto lock = PinLock::take(directory, wait_seconds);
  thin_directory(place, options, &owned.ownership(), tool.json);
}

}  // namespace

void add_thin(Tool& tool) {
  auto options = std::make_shared<ThinArguments>();
  auto* command = tool.app.add_subcommand(
      "thin", "Remove tensors, such as optimizers', from older checkpoints");
  command->add_option("DIR", options->directory, "Checkpoint directory")->required();
  command
      ->add_option("--drop", options->keys,
                   "Keys to remove; * stands for any characters, ? for one; repeatable")
      ->required()
      ->type_name("KEYS")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option(
          "--keep-newest", options->keep_newest,
          "So many of the newest keep all tensors; these are read first; damaged ones do not "
          "count")
      ->check(whole_number())
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Only these steps, between commas")
      ->delimiter(',')
      ->type_name("STEPS");
  command->add_flag("--pinned", options->pinned, "Thin pinned steps, too");
  command->add_option("--name", options->name, "Only checkpoints NAME-STEP");
  command->add_flag("--dry-run", options->dry_run, "Only say what would go");
  add_json(*command, tool);
  command->footer(
      "The rest is a whole checkpoint: verify finds nothing wrong, ls and show list removed\n"
      "tensors. A restore that wants one names the newest step that has it. thin refuses while\n"
      "a job saves there; a job thins with keep.keys. More: docs/thinning.md.\n\n"
      "Examples:\n"
      "  cairn thin run/ckpt --drop 'optimizer/*' --dry-run\n"
      "  cairn thin run/ckpt --drop 'optimizer/*' --drop 'ema/*' --steps 100,200");
  command->callback([&tool, options] { run(tool, *options); });
}

}  // namespace cairn::cli
