#include "store/directory/upkeep.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "store/commit/protocol.hpp"
#include "store/contents/format.hpp"
#include "store/contents/notes.hpp"
#include "store/directory/thin.hpp"

namespace cairn {

void Upkeep::begin(const std::vector<CatalogEntry>& catalog) {
  notes_ = !place_.naming.numbered || !format_of(policy_.format).has_data_files() ||
           !read_notes(*place_.files, place_.directory).empty();
  refresh_notes(place_, catalog);
  try {
    write_state_file(catalog);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("the state file is not up to date: ", error.what()));
  }
  if (const auto& wanted = policy_.xdmf) {
    xdmf_.emplace(place_.directory, place_.naming, *wanted);
    update_xdmf(catalog);
  }
}

void Upkeep::write_state_file(const std::vector<CatalogEntry>& entries,
                              const commit::Transaction* stages) {
  told_.reset();
  if (!policy_.keeps_state_file) return;
  std::optional<io::Path> staged;
  if (stages) staged = stages->staged_state_file();
  const bool written = update_state_file(place_, entries, &owned_.name->ownership(), &state_file_,
                                         staged ? &*staged : nullptr);
  if (written && staged) owned_.staging->renamed_state_file();
}

// The checkpoint is committed already, so failures here are logged, not thrown.
Expiry Upkeep::tell(const commit::Transaction& save, std::vector<CatalogEntry>& entries) {
  Expiry expiry;
  try {
    // The state file is written as step 8 will leave the directory, so that step 8 need not write
    // it again, which would cost as much as the commit.
    expiry = decide_expiry(place_, entries, policy_.keep, &pin_file_);
    std::vector<CatalogEntry> left;
    if (!expiry.steps.empty()) left = expiry.without(entries);
    const auto& kept = expiry.steps.empty() ? entries : left;
    // The state file need not be durable yet if the index in the staging directory will tell what
    // became of its checkpoint. But a power failure may bring an older state file back, which must
    // not name that checkpoint as the newest.
    const bool may_retire =
        owned_.is_in_staging(save) && owned_.recycling.is_on() && expiry.lock &&
        expiry.steps.size() == 1 && state_file_ &&
        state_file_->model_checkpoint_path != commit::prefix_name(place_.naming, expiry.steps[0]);
    write_state_file(kept, may_retire ? &save : nullptr);
    const bool volatile_commit = std::any_of(
        kept.begin(), kept.end(), [](const auto& entry) { return entry.volatile_commit; });
    if (place_.naming.numbered && policy_.keeps_state_file && !volatile_commit &&
        !restorable(kept).empty()) {
      told_ = steps_of(kept);
    }
    state_file_fails_ = false;
  } catch (const Error& error) {
    // On a full disk this may happen at each save: only the first time is a warning.
    log(std::exchange(state_file_fails_, true) ? LogLevel::info : LogLevel::warning,
        cat("step ", save.step, " is saved, but the state file is not: ", error.what()));
  }
  return expiry;
}

void Upkeep::update_xdmf(const std::vector<CatalogEntry>& entries) {
  try {
    xdmf_->update(*place_.files, entries, *owned_.name);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("the XDMF file is not up to date: ", error.what()));
  }
}

// First what the save replaced, then what retention lets go, then tensors that rules let go. An
// error in one of them does not keep the others from being done.
void Upkeep::tidy(const commit::Transaction& save, std::vector<CatalogEntry>& entries,
                  const Expiry& expiry, bool leaves_data,
                  std::optional<std::vector<std::string>> listing, commit::Waiting* recycled) {
  std::optional<commit::LeftData> now_left;
  try {
    // Files of another format are looked for only if the save may have seen some of its step.
    const auto& format = format_of(save);
    const bool any =
        !save.replaces ||
        std::any_of(save.replaces->begin(), save.replaces->end(), [&](const auto& file) {
          const auto kind = commit::parse_name(file.entry, place_.naming).kind;
          return commit::is_main(kind) && kind != format.main_kind();
        });
    const bool other_format = any && others_give_way({place_.files, save.prefix()}, format.id());
    commit::clean_up(*place_.files, save, owned_.name->ownership(), other_format, recycled);
    if (notes_) {
      note_saved(*place_.files, save.prefix(), place_.naming.numbered, policy_.format, save.uuid);
    }
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while tidying up after a save: ", error.what()));
    listing.reset();
  }
  if (xdmf_) update_xdmf(expiry.without(entries));
  try {
    RetentionHelp help;
    help.recycled = recycled;
    if (leaves_data && owned_.recycling.may_leave()) help.left = &now_left;
    help.told = told_;
    help.notes = notes_;
    help.expiry = &expiry;
    if (listing) help.listing = &*listing;
    if (owned_.is_in_staging(save)) {
      help.committed = save.step;
      help.staging = &*owned_.staging;
    }
    apply_retention(place_, entries, policy_.keep, owned_.name->ownership(), help);
    if (owned_.staging && !now_left) owned_.staging->sync_state_file();
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while removing old checkpoints: ", error.what()));
  }
  if (now_left) owned_.recycling.leave(*now_left);
  thin_by_rules(save.step, entries, expiry);
}

// Older checkpoints that stay lose the tensors that rules let go.
void Upkeep::thin_by_rules(std::int64_t step, std::vector<CatalogEntry>& entries,
                           const Expiry& expiry) {
  if (policy_.keep.keys.empty() || decide_thinning(entries, policy_.keep).empty()) return;
  auto lock =
      expiry.lock ? std::nullopt : PinLock::try_take(*place_.files, place_.directory, &pin_file_);
  if (!expiry.lock && !lock) return;  // somebody pins right now: the next save will do
  refresh_pins(place_, entries);
  for (auto& one : decide_thinning(entries, policy_.keep)) {
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&](const auto& other) { return other.step == one.step; });
    std::erase_if(one.keys, [&](const auto& keys) {
      return !thinned_.emplace(entry->save.identity, keys).second;
    });
    if (one.keys.empty()) continue;
    try {
      thin(place_, one.step, {one.keys, step}, owned_.name->ownership());
    } catch (const Error& error) {
      log(LogLevel::warning,
          cat("of step ", one.step, " not all that a rule lets go has gone: ", error.what()));
    }
    // Also after a failure: the index may have been replaced by then, so it is read again.
    const auto now = look_at_step(place_, one.step);
    if (now.save.identity != entry->save.identity) continue;
    entry->file = now.file;
    entry->thinned = now.thinned;
  }
}

std::size_t Upkeep::remove_surplus(std::vector<CatalogEntry>& entries,
                                   const std::function<void(std::vector<std::int64_t>&)>& spares) {
  auto expiry = decide_expiry(place_, entries, policy_.keep, &pin_file_);
  spares(expiry.steps);
  if (xdmf_) update_xdmf(expiry.without(entries));
  // apply_retention() writes the state file itself, so what it says is not known here afterwards.
  told_.reset();
  state_file_.reset();
  RetentionHelp help;
  help.notes = notes_;
  help.expiry = &expiry;
  if (owned_.staging) help.staging = &*owned_.staging;
  return apply_retention(place_, entries, policy_.keep, owned_.name->ownership(), help).size();
}

}  // namespace cairn
