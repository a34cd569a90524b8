// Opening a directory, and what is known of it. Saving is in directory_save.cpp, pins and retention
// in directory_pins.cpp.
#include "store/directory/directory.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "store/contents/format.hpp"
#include "store/contents/notes.hpp"

namespace cairn {
namespace {

// The same error in words for a program that stands in its own way.
Error of_this_process(const Location& place, const Error& busy) {
  const auto owner = commit::read_owner(*place.files, place.directory);
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  if (!owner || owner->pid != ::getpid() || owner->host != host) return busy;
  return Error(Code::busy, "the checkpoint directory is in use by this very process",
               cat("another CheckpointManager or Checkpoint of it saves under the name '",
                   place.naming.name, "' there"),
               "Use that one, let it go before, save under another name, or open read-only.")
      .at(busy.path());
}

}  // namespace

void Directory::take() {
  if (policy_.read_only) {
    if (io::exists(*place_.files, place_.directory)) return;
    throw Error(Code::not_found, cat("there is no directory ", place_.directory.string()),
                "a read-only manager does not make it", "Check the path.")
        .at(place_.directory.string());
  }
  io::create_directories(*place_.files, place_.directory);
  auto taking = commit::default_ownership();
  taking.atomic_rename = policy_.atomic_rename;
  try {
    ownership_.emplace(commit::OwnedName::take(place_.files, place_.directory, place_.naming,
                                               policy_.owner_wait_seconds, taking));
  } catch (const Error& error) {
    if (error.code() == Code::busy) throw of_this_process(place_, error);
    throw;
  }
}

void Directory::let_go() {
  xdmf_.reset();
  recycling_.reset();
  staging_.reset();
  ownership_.reset();
}

void Directory::begin(Recovered found, const SizesOfSteps& sizes) {
  not_completed_ = std::move(found.not_completed);
  if (recycles() && !policy_.read_only) {
    try {
      recycling_.emplace(place_, ownership_->ownership());
    } catch (const Error& error) {
      log(LogLevel::warning, cat("data files are not kept for later saves: ", error.what()));
      policy_.recycle = false;  // this rank alone decides what is kept
    }
  }
  catalog_ = scan_catalog(place_, sizes);
  for (const auto& entry : catalog_) {
    if (entry.pin != Pin::damaged) continue;
    log(LogLevel::warning,
        cat("the pin of step ", entry.step, " is damaged, and counts: pin it again, or unpin it"));
  }
  if (policy_.read_only) return;
  if (place_.naming.numbered) {
    staging_.emplace(place_.files, place_.directory, place_.naming, ownership_->ownership());
  }
  sequences_.begin(catalog_, found.undecided, std::move(found.within_reach));
  notes_ = !place_.naming.numbered || !format_of(policy_.format).has_data_files() ||
           !read_notes(*place_.files, place_.directory).empty();
  refresh_notes(place_, catalog_);
  try {
    write_state_file(catalog_);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("the state file is not up to date: ", error.what()));
  }
  if (const auto& wanted = policy_.xdmf) {
    xdmf_.emplace(place_.directory, place_.naming, *wanted);
    update_xdmf(catalog_);
  }
}

const CatalogEntry* Directory::find(std::int64_t step) const {
  const auto at = std::find_if(catalog_.begin(), catalog_.end(),
                               [&](const auto& entry) { return entry.step == step; });
  return at == catalog_.end() ? nullptr : &*at;
}

std::optional<CatalogEntry> Directory::copy_of(std::int64_t step) const {
  const auto* there = find(step);
  return there ? std::optional(*there) : std::nullopt;
}

void Directory::look_again() {
  if (policy_.read_only) {
    catalog_ = scan_catalog(place_);
  } else {
    read_again();
  }
}

// Checkpoints of which only the last fsync failed, or of which it could not be told whether they
// were committed: one that is there is made durable, one that is not is forgotten.
void Directory::make_durable() {
  std::erase_if(catalog_, [&](CatalogEntry& entry) {
    if (!entry.volatile_commit) return false;
    try {
      commit::Transaction save{place_.directory, place_.naming, entry.step, entry.save.identity, 0};
      format_of(entry.format).shape(save, 0);
      if (!holds(*place_.files, save)) return true;
      place_.files->sync_directory(place_.directory);
      entry.volatile_commit = false;
    } catch (const Error& error) {
      log(LogLevel::warning, cat("step ", entry.step, " may not be durable: ", error.what()));
    }
    return false;
  });
}

// Before anything is told or restored: what could not be read when the directory was opened may be
// readable now, and what was said to be committed may not be there.
void Directory::read_again() {
  make_durable();
  if (std::none_of(catalog_.begin(), catalog_.end(),
                   [](const auto& one) { return one.unreadable; })) {
    return;
  }
  try {
    auto now = scan_catalog(place_);
    for (auto& entry : now) {
      const auto* before = find(entry.step);
      if (!before || before->save.identity != entry.save.identity) continue;
      entry.volatile_commit = before->volatile_commit;
      if (entry.damage.empty() && !before->unreadable) entry.damage = before->damage;
    }
    catalog_ = std::move(now);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("what could not be read before cannot be now: ", error.what()));
  }
}

bool Directory::changed_meanwhile(std::int64_t step) {
  const auto* before = find(step);
  const auto identity = before ? before->save.identity : "";
  catalog_ = scan_catalog(place_);
  const auto* now = find(step);
  return !now || now->save.identity != identity;
}

Directory::Choices Directory::choices() const {
  Choices choices;
  choices.passed.assign(not_completed_.rbegin(), not_completed_.rend());
  for (const auto* entry : restorable(catalog_)) choices.steps.push_back(entry->step);
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

void Directory::remember_damage(std::int64_t step, const Error& error) {
  log(LogLevel::warning, cat("step ", step, " is damaged: ", error.what()));
  for (auto& entry : catalog_) {
    if (entry.step != step || error.code() != Code::data_loss) continue;
    entry.damage = error.what();
    entry.lacks_metadata = false;
    if (policy_.read_only) continue;
    try {
      mark_damaged(place_, entry, error.what());
      write_state_file(catalog_);
    } catch (const Error& failed) {
      log(LogLevel::warning, cat("the damage of step ", step, " is not marked: ", failed.what()));
    }
  }
}

// What a checkpoint says of itself comes first: it may not have been readable when the directory
// was opened.
void Directory::went_back_to(std::int64_t step, std::optional<std::int64_t> sequence) {
  restored_step_ = restored_from_ = step;
  last_before_ = sequences_.last();
  elsewhere_ = -1;
  if (sequence) {
    head_ = *sequence;
  } else if (const auto* entry = find(step)) {
    head_ = entry->lacks_metadata ? -1 : entry->save.sequence;
  }
}

void Directory::went_back_elsewhere(std::int64_t step, std::int64_t sequence) {
  restored_step_ = step;
  last_before_ = sequences_.last();
  head_ = elsewhere_ = sequence;
  head_here_ = last_here(sequence);
}

std::int64_t Directory::last_here(std::int64_t sequence) const {
  std::int64_t last = -1;
  for (const auto* entry : restorable(catalog_)) {
    if (entry->save.sequence <= sequence) last = std::max(last, entry->save.sequence);
  }
  return last;
}

// Between the state and its last ancestor here there is none; else it is only known which were
// before.
std::int64_t Directory::parent_here(std::int64_t sequence, std::int64_t parent) const {
  const bool is_next = sequence <= head_ && sequence > parent_here();
  return is_next ? parent_here() : last_here(parent);
}

void Directory::write_state_file(const std::vector<CatalogEntry>& entries,
                                 const commit::Transaction* stages) {
  told_.reset();
  if (!policy_.keeps_state_file) return;
  std::optional<io::Path> staged;
  if (stages) staged = stages->staged_state_file();
  const bool written = update_state_file(place_, entries, &ownership_->ownership(), &state_file_,
                                         staged ? &*staged : nullptr);
  if (written && staged) staging_->renamed_state_file();
}

}  // namespace cairn
