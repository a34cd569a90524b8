// Opening a directory, and what is known of it. Saving is in directory_save.cpp, pins and retention
// in directory_pins.cpp.
#include "store/directory/directory.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "store/contents/format.hpp"
#include "store/contents/notes.hpp"

namespace cairn {

bool Directory::take() {
  if (policy_.read_only) {
    if (io::exists(*place_.files, place_.directory)) return true;
    if (const auto link = io::link_to_nothing(*place_.files, place_.directory)) throw Error(*link);
    throw Error(Code::not_found, cat("there is no directory ", place_.directory.string()),
                "a read-only manager does not make it", "Check the path.")
        .at(place_.directory.string());
  }
  io::create_directories(*place_.files, place_.directory);
  auto taking = commit::default_ownership();
  taking.atomic_rename = policy_.atomic_rename;
  owned_.name.emplace(commit::OwnedName::take(place_.files, place_.directory, place_.naming,
                                              policy_.owner_wait_seconds, taking));
  return owned_.name->atomic_rename();
}

Recovered Directory::recover(const Readers& readers) const {
  return cairn::recover(place_, readers, owned_.name ? &owned_.name->ownership() : nullptr);
}

void Directory::let_go() {
  upkeep_.end();
  owned_.recycling.end();
  owned_.staging.reset();
  owned_.name.reset();
  policy_.read_only = true;  // until it is asked for once more
}

void Directory::begin(Recovered found, const SizesOfSteps& sizes) {
  if (policy_.recycle && place_.atomic_rename && !policy_.read_only) {
    try {  // this rank alone decides what is kept
      owned_.recycling.begin(owned_.name->ownership(), !policy_.has_savers);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("data files are not kept for later saves: ", error.what()));
    }
  }
  history_.begin(scan_catalog(place_, sizes), std::move(found.not_completed));
  const auto& catalog = history_.catalog();
  for (const auto& entry : catalog) {
    if (entry.pin != Pin::damaged) continue;
    log(LogLevel::warning,
        cat("the pin of step ", entry.step, " is damaged, and counts: pin it again, or unpin it"));
  }
  if (policy_.read_only) return;
  if (place_.naming.numbered) {
    owned_.staging.emplace(place_.files, place_.directory, place_.naming, owned_.name->ownership());
  }
  sequences_.begin(catalog, found.undecided, std::move(found.within_reach));
  upkeep_.begin(catalog);
  recorder_.begin();
}

// Checkpoints of which only the last fsync failed, or of which it could not be told whether they
// were committed: one that is there is made durable, one that is not is forgotten.
void Directory::make_durable() {
  std::erase_if(history_.catalog(), [&](CatalogEntry& entry) {
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
void Directory::look_again() {
  auto& catalog = history_.catalog();
  if (policy_.read_only) {
    catalog = scan_catalog(place_);
    return;
  }
  if (!io::exists(*place_.files, place_.directory)) owned_.name->ownership().require_there();
  make_durable();
  if (std::none_of(catalog.begin(), catalog.end(),
                   [](const auto& one) { return one.unreadable; })) {
    return;
  }
  try {
    auto now = scan_catalog(place_);
    for (auto& entry : now) {
      const auto* before = history_.find(entry.step);
      if (!before || before->save.identity != entry.save.identity) continue;
      entry.volatile_commit = before->volatile_commit;
      if (entry.damage.empty() && !before->unreadable) entry.damage = before->damage;
    }
    catalog = std::move(now);
  } catch (const Error& error) {
    if (error.code() == Code::unavailable) throw;
    log(LogLevel::warning, cat("what could not be read before cannot be now: ", error.what()));
  }
}

void Directory::mark_damaged(const CatalogEntry& entry, const std::string& reason) {
  cairn::mark_damaged(place_, entry, reason);
  upkeep_.write_state_file(history_.catalog());
}

}  // namespace cairn
