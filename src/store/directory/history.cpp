#include "store/directory/history.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "store/contents/format.hpp"
#include "store/directory/marks.hpp"
#include "store/directory/retention.hpp"

namespace cairn {

void History::begin(std::vector<CatalogEntry> catalog, std::vector<std::string> not_completed) {
  catalog_ = std::move(catalog);
  not_completed_ = std::move(not_completed);
}

const CatalogEntry* History::find(std::int64_t step) const {
  const auto at = std::find_if(catalog_.begin(), catalog_.end(),
                               [&](const auto& entry) { return entry.step == step; });
  return at == catalog_.end() ? nullptr : &*at;
}

const CatalogEntry* History::find_sequence(std::int64_t sequence) const {
  const auto at = std::find_if(catalog_.begin(), catalog_.end(),
                               [&](const auto& entry) { return entry.save.sequence == sequence; });
  return at == catalog_.end() ? nullptr : &*at;
}

std::optional<CatalogEntry> History::copy_of(std::int64_t step) const {
  const auto* there = find(step);
  return there ? std::optional(*there) : std::nullopt;
}

std::optional<Format> History::twin_of(std::int64_t step) const {
  const auto* entry = find(step);
  return entry && entry->other_is_same ? entry->other : std::nullopt;
}

std::optional<Format> History::only_format_of(std::int64_t step) const {
  const auto* entry = find(step);
  return entry && entry->damage.empty() && !entry->other ? std::optional(entry->format)
                                                         : std::nullopt;
}

std::int64_t History::last_number() const {
  auto last = std::max(last_number_, head_);
  for (const auto& entry : catalog_) last = std::max(last, entry.save.sequence);
  return last;
}

bool History::any_volatile() const {
  return std::any_of(catalog_.begin(), catalog_.end(),
                     [](const auto& entry) { return entry.volatile_commit; });
}

// From the newest to the oldest: `steps` are tried first. What a restart passes over is told only
// if it is newer than the first of them.
RestoreChoices History::choices() const {
  RestoreChoices choices;
  choices.passed.assign(not_completed_.rbegin(), not_completed_.rend());
  for (const auto* entry : restorable(catalog_)) {
    const auto why = why_passed_over(*entry);
    if (why.empty()) {
      choices.steps.push_back(entry->step);
      continue;
    }
    const bool is_marked = entry->mark == StepMark::bad;
    choices.whole[entry->save.sequence] = entry->step;
    if (!is_marked) choices.again.push_back(entry->step);
    if (!choices.steps.empty()) continue;
    auto& all = is_marked ? choices.marked : choices.in_vain;
    all[entry->save.sequence] = cat("step ", entry->step, ": ", why);
  }
  for (auto entry = catalog_.rbegin(); entry != catalog_.rend(); ++entry) {
    if (!choices.steps.empty() && entry->step == choices.steps.front()) break;
    if (!entry->damage.empty() && !entry->superseded) {
      choices.passed.push_back(cat("step ", entry->step, ": ", entry->damage));
    }
  }
  for (auto entry = catalog_.rbegin(); entry != catalog_.rend(); ++entry) {
    if (entry->lacks_metadata && !entry->superseded) choices.last.push_back(entry->step);
  }
  return choices;
}

// After a return to an earlier step, later ones may be saved again until the first commit.
bool History::is_taken(std::int64_t step) const {
  const auto* there = find(step);
  return there && (there->damage.empty() || there->unreadable) && !there->superseded &&
         !there->volatile_commit && !(restored_step_ && step > *restored_step_);
}

std::optional<commit::ReusableData> History::shares(std::int64_t sequence) const {
  const CatalogEntry* found = nullptr;
  for (const auto& entry : catalog_) {
    const bool sound = entry.ours && entry.damage.empty() && !entry.volatile_commit &&
                       format_of(entry.format).has_data_files() && entry.num_files > 0;
    if (!sound || (found && found->save.sequence == sequence)) continue;
    if (!found || entry.save.sequence == sequence || entry.save.sequence > found->save.sequence) {
      found = &entry;
    }
  }
  if (!found) return std::nullopt;
  return commit::ReusableData{found->step, found->num_files, found->save.sequence};
}

void History::committed(CatalogEntry entry, bool is_new) {
  const auto sequence = entry.save.sequence;
  enter(catalog_, std::move(entry));
  not_completed_.clear();
  if (sequence > last_before_) restored_step_.reset();
  // What was elsewhere is an ancestor of the state already, or was left behind.
  if (!is_new) {
    if (sequence <= head_) head_here_ = std::max(head_here_, sequence);
    return;
  }
  // An asynchronous save may commit after a later one that went elsewhere.
  head_ = std::max(sequence, elsewhere_);
  head_here_ = sequence;
}

void History::tidied(const std::vector<std::int64_t>& steps) {
  const MutexLock guard(tidied_mutex_);
  tidied_.insert(tidied_.end(), steps.begin(), steps.end());
}

void History::thinned(const std::vector<CatalogEntry>& entries) {
  const MutexLock guard(tidied_mutex_);
  thinned_.insert(thinned_.end(), entries.begin(), entries.end());
}

void History::apply_tidied() {
  const MutexLock guard(tidied_mutex_);
  for (const auto step : tidied_) {
    std::erase_if(catalog_, [&](const auto& entry) { return entry.step == step; });
  }
  tidied_.clear();
  for (auto& now : thinned_) {
    for (auto& entry : catalog_) {
      if (entry.step != now.step || entry.save.identity != now.save.identity) continue;
      entry.file = now.file;
      entry.thinned = now.thinned;
    }
  }
  thinned_.clear();
}

// What a checkpoint says of itself comes first: it may not have been readable when the directory
// was opened.
void History::went_back_to(std::int64_t step, std::optional<std::int64_t> sequence) {
  restored_step_ = restored_from_ = step;
  last_before_ = last_number_;
  elsewhere_ = -1;
  if (sequence) {
    head_ = *sequence;
  } else if (const auto* entry = find(step)) {
    head_ = entry->lacks_metadata ? -1 : entry->save.sequence;
  }
}

void History::went_back_elsewhere(std::int64_t step, std::int64_t sequence) {
  restored_step_ = step;
  last_before_ = last_number_;
  head_ = elsewhere_ = sequence;
  head_here_ = last_here(sequence);
}

void History::went_on_from(std::int64_t sequence) {
  if (elsewhere_ < 0) head_here_ = head_;
  head_ = elsewhere_ = sequence;
}

std::int64_t History::last_here(std::int64_t sequence) const {
  std::int64_t last = -1;
  for (const auto* entry : restorable(catalog_)) {
    if (entry->save.sequence <= sequence) last = std::max(last, entry->save.sequence);
  }
  return last;
}

// Between the state and its last ancestor here there is none; else it is only known which were
// before.
std::int64_t History::parent_here(std::int64_t sequence, std::int64_t parent) const {
  const bool is_next = sequence <= head_ && sequence > parent_here();
  return is_next ? parent_here() : last_here(parent);
}

// A tool that stores a checkpoint again makes no progress: nothing that is there may be superseded
// by it, and what is known of the save stays known. It takes the place of what it replaces, or else
// the one that it had.
void History::place(CheckpointMeta& meta, bool numbered) const {
  if (!origin_) return;
  const auto* replaced = find(meta.step);
  if (replaced && replaced->save.sequence > 0) {
    meta.sequence = replaced->save.sequence;
    meta.parent = replaced->save.parent;
  } else if (origin_->sequence > 0) {
    meta.sequence = origin_->sequence;
    meta.parent = origin_->parent;
  } else {  // behind all others
    meta.parent = meta.sequence > 1 ? meta.sequence - 1 : -1;
  }
  if (origin_->uuid.empty()) return;
  if (!numbered) meta.step = origin_->step;
  meta.wall_time_seconds = origin_->wall_time_seconds;
  meta.ranks = origin_->ranks;
  meta.savers = origin_->savers;
  meta.metric = origin_->metric;
  meta.application = origin_->application;
}

std::optional<std::int64_t> History::step_to_prove(const Retention& keep,
                                                   const std::vector<std::int64_t>& saving,
                                                   const std::set<std::int64_t>& tried) const {
  if (any_volatile()) return std::nullopt;  // what is not durable takes nothing away
  for (const auto* entry : restorable(catalog_)) {
    if (!entry->ours || tried.contains(entry->step)) continue;
    std::vector<std::int64_t> steps;
    for (const auto& one : decide_retention(catalog_, keep)) {
      if (!one.stays) steps.push_back(one.step);
    }
    spare(steps, entry->step, saving);
    return steps.empty() ? std::nullopt : std::optional(entry->step);
  }
  return std::nullopt;
}

// Nothing that is newer than the step that was proved, which the rules may count as damaged only.
void History::spare(std::vector<std::int64_t>& steps, std::int64_t proved,
                    const std::vector<std::int64_t>& saving) const {
  std::set<std::int64_t> stays(saving.begin(), saving.end());
  if (restored_from_) stays.insert(*restored_from_);
  const auto from = std::find_if(catalog_.begin(), catalog_.end(),
                                 [&](const auto& entry) { return entry.step == proved; });
  for (auto entry = from; entry != catalog_.end(); ++entry) stays.insert(entry->step);
  const bool is_there = from != catalog_.end();
  std::erase_if(steps, [&](const auto step) { return !is_there || stays.contains(step); });
}

}  // namespace cairn
