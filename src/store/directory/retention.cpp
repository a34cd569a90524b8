#include "store/directory/retention.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/protocol.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/notes.hpp"
#include "store/directory/marks.hpp"

namespace cairn {
namespace {

constexpr double hour_seconds = 3600;
// So many checkpoints with all of the state stay: a damaged disk could cost a single one.
constexpr int least_whole = 2;

bool is_counted(const CatalogEntry& entry) { return entry.ours && !entry.unreadable; }

// Indices of those that are counted, the first to be kept first.
std::vector<std::size_t> by_age(const std::vector<CatalogEntry>& entries) {
  std::vector<std::size_t> order;
  for (auto i = entries.size(); i-- > 0;) {
    if (is_counted(entries[i])) order.push_back(i);
  }
  const auto worth = [&](std::size_t i) {
    return !entries[i].damage.empty() ? 2 : entries[i].superseded ? 1 : 0;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return worth(a) < worth(b); });
  return order;
}

std::vector<std::size_t> by_steps(const std::vector<CatalogEntry>& entries, std::int64_t every) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; every > 0 && i < entries.size(); ++i) {
    if (entries[i].damage.empty() && entries[i].step % every == 0) kept.push_back(i);
  }
  return kept;
}

// The first one, and then each that is so many hours away from the last one kept. An entry that is
// not kept so never becomes one when other such entries are removed.
std::vector<std::size_t> by_hours(const std::vector<CatalogEntry>& entries, double hours) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; hours > 0 && i < entries.size(); ++i) {
    if (!is_counted(entries[i]) || !entries[i].damage.empty()) continue;
    const auto since = kept.empty() ? INFINITY
                                    : std::abs(entries[i].save.wall_time_seconds -
                                               entries[kept.back()].save.wall_time_seconds);
    if (since >= hours * hour_seconds) kept.push_back(i);
  }
  return kept;
}

std::vector<std::size_t> by_metric(const std::vector<CatalogEntry>& entries,
                                   const Retention& keep) {
  std::vector<std::size_t> order;
  for (auto i = entries.size(); i-- > 0;) {  // among equals the newest
    if (is_counted(entries[i]) && entries[i].damage.empty() && entries[i].save.metric)
      order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const double left = *entries[a].save.metric, right = *entries[b].save.metric;
    if (std::isnan(left) || std::isnan(right)) return !std::isnan(left) && std::isnan(right);
    return keep.larger_is_better ? left > right : left < right;
  });
  if (order.size() > static_cast<std::size_t>(keep.best)) {
    order.resize(static_cast<std::size_t>(keep.best));
  }
  return order;
}

// Whether the next save can take its data files from where they are: there is nothing else of the
// step, and on the average they are worth it.
bool can_be_left(const CatalogEntry& entry, const commit::Naming& name,
                 const std::vector<std::string>& listing) {
  constexpr std::int64_t worth_bytes = 4096;
  if (entry.data_bytes < worth_bytes * (entry.num_files - 1)) return false;
  const auto of_step = commit::entries_of(listing, name, entry.step);
  const auto files = std::count_if(of_step.begin(), of_step.end(), [&](const auto& file) {
    const auto parsed = commit::parse_name(file, name);
    return parsed.kind == commit::ParsedName::Kind::data && parsed.step == entry.step;
  });
  const auto prefix = commit::prefix_name(name, entry.step);
  for (int file = 0; file < entry.num_files; ++file) {
    if (!std::binary_search(of_step.begin(), of_step.end(),
                            commit::data_name(prefix, file, entry.num_files))) {
      return false;
    }
  }
  return files == entry.num_files && entry.num_files > 1;
}

// Whether the newest checkpoint that stays is really there: it has to replace what is removed. A
// file of its name that is not the one that was read does not count.
bool is_newest_there(const Location& place, const std::vector<CatalogEntry>& kept,
                     std::int64_t committed) {
  const auto live = restorable(kept);
  if (live.empty()) return true;
  const auto& newest = *live.front();
  if (newest.step == committed) return true;
  const auto prefix = place.prefix(newest.step);
  const auto& format = format_of(newest.format);
  const auto status = place.files->status(format.main_file(prefix));
  if (!status) return false;
  if (newest.file) return status->id == *newest.file;
  const auto contents = read_contents_as(newest.format, *place.files, prefix);
  return !contents.meta || contents.meta->uuid == newest.save.identity;
}

// Removes the checkpoints that retention lets go.
class Removals {
 public:
  Removals(const Location& place, const commit::Ownership& owner, const RetentionHelp& help)
      : place_(place), files_(*place.files), name_(place.naming), owner_(owner), help_(help) {
    listing_ = help.listing ? *help.listing : files_.list(place.directory);
  }

  void put_back_aside(bool is_checked) {
    const bool any = std::any_of(listing_.begin(), listing_.end(), [&](const auto& entry) {
      return commit::parse_aside_name(entry, name_).has_value();
    });
    if (!any) return;
    if (!is_checked) owner_.check();
    commit::put_back_aside(files_, place_.directory, name_, &owner_);
    listing_ = files_.list(place_.directory);
  }

  // Returns why there is no room for it; "": it is written.
  std::string write_state_file(const std::vector<CatalogEntry>& entries) const {
    try {
      update_state_file(place_, entries, &owner_);
    } catch (const Error& error) {
      if (error.code() != Code::no_space) throw;
      return error.what();
    }
    return "";
  }

  // Whether there is no checkpoint of ours any more. `alone`: nothing else goes with it.
  bool remove(const CatalogEntry& entry, bool alone) const {
    const auto& format = format_of(entry.format);
    const auto prefix = prefix_of(entry);
    // Another program's file stands where our checkpoint was.
    if (!entry.damage.empty() && !format.gives_way(files_, prefix).value_or(true)) {
      log(LogLevel::warning,
          cat(format.main_file(prefix).string(), " stays: Cairn did not write it"));
      forget_saved(files_, prefix);
      return true;
    }
    // Whether the step is there in another format; the bytes tell later whether that is ours.
    const auto of_step = commit::entries_of(listing_, name_, entry.step);
    const bool others = std::any_of(of_step.begin(), of_step.end(), [&](const auto& file) {
      const auto parsed = commit::parse_name(file, name_);
      return parsed.step == entry.step && commit::is_main(parsed.kind) &&
             parsed.kind != format.main_kind();
    });
    // If several checkpoints go, no save could take the data of all of them.
    const bool stays = help_.left && alone && !others && can_be_left(entry, name_, listing_);
    if (!take_away(entry, others, stays)) {
      log(LogLevel::warning,
          cat("step ", entry.step, " stays: another save of it is there by now"));
      return false;
    }
    if (stays) *help_.left = {entry.step, entry.num_files, entry.data_bytes};
    if (help_.notes) forget_saved(files_, prefix);
    return true;
  }

 private:
  io::Path prefix_of(const CatalogEntry& entry) const { return place_.prefix(entry.step); }

  // Whether the checkpoint was still there. Where its data stay for the next save, the index goes
  // to the staging directory, if there is one.
  bool take_away(const CatalogEntry& entry, bool others, bool stays) const {
    if (stays && help_.staging) return help_.staging->retire_index(entry.step, entry.file);
    // The index is removed and not set aside, so only the state file tells that it was on purpose.
    if (help_.staging) help_.staging->sync_state_file();
    const auto& format = format_of(entry.format);
    return commit::remove_checkpoint(
        files_, place_.directory, name_,
        {entry.step, entry.file, format.main_kind(),
         others && others_give_way({files_, prefix_of(entry)}, entry.format), help_.recycled, stays,
         &listing_},
        owner_);
  }

  const Location& place_;
  io::FileSystem& files_;
  const commit::Naming& name_;
  const commit::Ownership& owner_;
  const RetentionHelp& help_;
  std::vector<std::string> listing_;
};

// Why an entry is not kept, where no rule says that it is.
std::string why_it_goes(const CatalogEntry& entry, const Retention& keep) {
  if (!entry.damage.empty()) return "damaged";
  return cat(entry.superseded ? "superseded, and " : "", "not one of the last ", keep.last);
}

// Why an entry is kept whatever the rules say; "": it is not.
std::string why_it_always_stays(const CatalogEntry& entry, const Retention& keep) {
  if (entry.pin != Pin::none) return "pinned";
  if (!entry.ours) {
    return entry.damage.empty() ? "not saved by Cairn"
                                : "its index cannot be read, so nothing says that Cairn saved it";
  }
  if (entry.unreadable) return "it cannot be read now";
  return keep.last == 0 ? "all stay: keep.last is 0" : "";
}

// Rules by their names.
struct RuleText {
  std::string& text;
  template <class T>
  void agreed(const char* name, const T& value) {
    text += cat(text.empty() ? "" : " ", name, '=', value);
  }
  void agreed(const char*, const std::vector<KeyRule>&) {}  // which steps they are says the rest
};
struct RuleReader {
  const std::map<std::string, std::string>& rules;
  bool& sound;
  template <class T>
  void agreed(const char* name, T& value) {
    const auto at = rules.find(name);
    if (at == rules.end()) return;
    sound = sound && parse_number(at->second, value);
  }
  void agreed(const char*, std::vector<KeyRule>&) {}
};

}  // namespace

std::vector<std::int64_t> steps_of(const std::vector<CatalogEntry>& entries) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : entries) steps.push_back(entry.step);
  return steps;
}

std::string text_of(const Retention& keep) {
  std::string text;
  Retention::visit(keep, RuleText{text});
  return text;
}

std::optional<Retention> retention_of(const std::string& text) {
  std::map<std::string, std::string> rules;
  for (std::size_t at = 0; at < text.size();) {
    const auto rule = text.substr(at, text.find(' ', at) - at);
    at += rule.size() + 1;
    if (rule.empty()) continue;
    const auto end = rule.find('=');
    if (end == std::string::npos) return std::nullopt;
    rules[rule.substr(0, end)] = rule.substr(end + 1);
  }
  if (rules.empty()) return std::nullopt;
  Retention keep;
  bool sound = true;
  Retention::visit(keep, RuleReader{rules, sound});
  if (!sound) return std::nullopt;
  return keep;
}

// What a restart takes, which may be an older one than the newest; null: none.
static const CatalogEntry* newest_taken(const std::vector<const CatalogEntry*>& live) {
  const auto sound = std::find_if(
      live.begin(), live.end(), [](const auto* entry) { return why_passed_over(*entry).empty(); });
  return sound == live.end() ? nullptr : *sound;
}

// With rules by key those from which the whole state can be restored.
static std::vector<const CatalogEntry*> newest_whole(const std::vector<const CatalogEntry*>& live,
                                                     const Retention& keep) {
  std::vector<const CatalogEntry*> whole;
  for (const auto* entry : live) {
    if (keep.keys.empty() || std::ssize(whole) == least_whole) break;
    if (entry->thinned.empty() && why_passed_over(*entry).empty()) whole.push_back(entry);
  }
  return whole;
}

std::vector<RetentionDecision> decide_retention(const std::vector<CatalogEntry>& entries,
                                                const Retention& keep) {
  std::vector<RetentionDecision> decisions;
  for (const auto& entry : entries) {
    decisions.push_back({entry.step, false, why_it_goes(entry, keep)});
  }
  const auto stays = [&](std::size_t i, std::string why) {
    // The first reason that holds is told.
    if (!decisions[i].stays) decisions[i] = {entries[i].step, true, std::move(why)};
  };
  const auto live = restorable(entries);
  if (!live.empty()) stays(static_cast<std::size_t>(live.front() - entries.data()), "the newest");
  if (const auto* taken = newest_taken(live)) {
    stays(static_cast<std::size_t>(taken - entries.data()), "the newest that is not passed over");
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (auto why = why_it_always_stays(entries[i], keep); !why.empty()) stays(i, std::move(why));
  }
  const auto last = by_age(entries);
  for (std::size_t k = 0; k < last.size() && k < static_cast<std::size_t>(keep.last); ++k) {
    stays(last[k], cat("one of the last ", keep.last));
  }
  for (const auto i : by_steps(entries, keep.every_steps)) {
    stays(i, cat("a multiple of ", keep.every_steps, " steps"));
  }
  for (const auto i : by_hours(entries, keep.every_hours)) {
    stays(i, cat("the one in ", keep.every_hours, " hours"));
  }
  for (const auto i : by_metric(entries, keep)) {
    stays(i, cat("one of the best ", keep.best, ", metric ", *entries[i].save.metric));
  }
  for (const auto* entry : newest_whole(live, keep)) {
    stays(static_cast<std::size_t>(entry - entries.data()), "one of the two newest that have all");
  }
  return decisions;
}

std::vector<ThinDecision> decide_thinning(const std::vector<CatalogEntry>& entries,
                                          const Retention& keep) {
  std::map<std::size_t, ThinDecision> by_entry;
  const auto order = by_age(entries);
  for (const auto& rule : keep.keys) {
    // Counts those that a restart would take and that still have these tensors.
    int have = 0;
    for (const auto i : order) {
      const auto& entry = entries[i];
      const bool has_gone = std::any_of(entry.thinned.begin(), entry.thinned.end(),
                                        [&](const auto& one) { return one.keys == rule.keys; });
      if (has_gone || !entry.damage.empty() || rule.last == 0) continue;
      if (!why_passed_over(entry).empty()) continue;  // a restart would not take it
      if (++have <= std::max(rule.last, least_whole)) continue;
      const bool stays = entry.pin != Pin::none || entry.volatile_commit || entry.other;
      if (stays || !format_of(entry.format).has_data_files()) continue;
      auto& one = by_entry[i];
      one.step = entry.step;
      one.keys.push_back(rule.keys);
    }
  }
  std::vector<ThinDecision> all;
  for (auto& [i, one] : by_entry) all.push_back(std::move(one));
  return all;
}

std::vector<CatalogEntry> Expiry::without(std::vector<CatalogEntry> entries) const {
  std::erase_if(entries, [&](const auto& entry) {
    return std::find(steps.begin(), steps.end(), entry.step) != steps.end();
  });
  return entries;
}

Expiry decide_expiry(const Location& place, std::vector<CatalogEntry>& catalog,
                     const Retention& keep, PinLock::File* pin_file) {
  Expiry expiry;
  if (keep.last == 0) return expiry;
  const auto victims = [&](const std::vector<CatalogEntry>& entries) {
    std::vector<std::int64_t> steps;
    for (const auto& one : decide_retention(entries, keep)) {
      if (!one.stays) steps.push_back(one.step);
    }
    return steps;
  };
  auto unpinned = catalog;  // a pin never makes another one go
  for (auto& entry : unpinned) entry.pin = Pin::none;
  if (victims(unpinned).empty()) return expiry;
  expiry.lock = PinLock::try_take(*place.files, place.directory, pin_file);
  refresh_pins(place, catalog);  // with those made before the lock was taken
  expiry.steps = victims(catalog);
  return expiry;
}

std::vector<std::int64_t> apply_retention(const Location& place, std::vector<CatalogEntry>& catalog,
                                          const Retention& keep, const commit::Ownership& owner,
                                          const RetentionHelp& help) {
  std::optional<Expiry> mine;
  if (!help.expiry) mine = decide_expiry(place, catalog, keep);
  const auto& expiry = help.expiry ? *help.expiry : *mine;
  const auto& steps = expiry.steps;
  if (steps.empty()) return {};
  if (!expiry.lock) {
    log(LogLevel::warning,
        "old checkpoints stay until a later save: one is being pinned, or a job that is stopped "
        "was "
        "removing some");
    return {};
  }
  const auto kept = expiry.without(catalog);
  const bool told = help.told && *help.told == steps_of(kept);
  // If nothing is written before the first index is set aside, the check of the ownership that
  // belongs to setting aside is early enough.
  const bool writes = !told || help.notes;
  if (writes) owner.check();
  Removals removals(place, owner, help);
  removals.put_back_aside(writes);
  if (!is_newest_there(place, kept, help.committed)) {
    log(LogLevel::warning, cat("nothing is removed from ", place.directory.string(),
                               ": the newest checkpoint that stays is not there any more"));
    return {};
  }
  // The state file is written before the removals, so that it names nothing that is gone. On a full
  // disk there is room for it only after them, and only they make room.
  const bool afterwards =
      place.naming.numbered && !told && !removals.write_state_file(kept).empty();
  // Also if the state file could not be written, or no checkpoint that is left can be restored: a
  // step that it lists and that has data, but no index, would count as lost, not as removed.
  std::vector<io::Path> prefixes;
  for (const auto step : steps) prefixes.push_back(place.prefix(step));
  if (writes) retire(*place.files, place.directory, place.naming, prefixes);
  std::vector<std::int64_t> gone;
  for (const auto step : steps) {
    const auto at = std::find_if(catalog.begin(), catalog.end(),
                                 [&](const auto& entry) { return entry.step == step; });
    if (removals.remove(*at, steps.size() == 1)) gone.push_back(step);
    std::erase_if(catalog, [&](const auto& entry) { return entry.step == step; });
  }
  // There was no room for a state file before; the removals may have made some.
  const auto no_room = afterwards ? removals.write_state_file(catalog) : std::string();
  if (!no_room.empty()) log(LogLevel::warning, cat("there is no state file now: ", no_room));
  return gone;
}

std::string how_to_make_room(const io::Path& directory, const std::vector<CatalogEntry>& catalog,
                             const Retention& keep) {
  const auto count_kept = [&](const Retention& rules) {
    const auto decisions = decide_retention(catalog, rules);
    return std::count_if(decisions.begin(), decisions.end(), [](auto& one) { return one.stays; });
  };
  auto text = cat("When no job saves here, cairn gc ", directory.string(),
                  " --max-to-keep N removes all but the last N checkpoints and pinned ones.");
  if (keep.last == 0) return text + " A job with keep.last = 0 removes none.";
  const auto tell = [&](const char* option, const auto& value, Retention without) {
    const auto stay = count_kept(keep) - count_kept(without);
    if (stay > 0) text += cat(" For ever stay ", stay, " by keep.", option, " = ", value, ".");
  };
  auto without = keep;
  without.every_steps = 0;
  tell("every_steps", keep.every_steps, without);
  without = keep;
  without.every_hours = 0;
  tell("every_hours", keep.every_hours, without);
  return text;
}

}  // namespace cairn
