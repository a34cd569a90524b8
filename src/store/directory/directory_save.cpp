// What rank 0 does to the directory in a save. The numbers of steps are those of the protocol
// (store/commit/protocol.hpp).
#include <algorithm>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "store/commit/recycled.hpp"
#include "store/contents/format.hpp"
#include "store/contents/notes.hpp"
#include "store/directory/directory.hpp"
#include "store/directory/pins.hpp"

namespace cairn {

std::vector<commit::LeftData> Directory::left() const {
  const std::lock_guard guard(tidied_mutex_);
  return recycling_ ? recycling_->left : std::vector<commit::LeftData>();
}

// What no save will take any more: the next one takes it from where it waits.
void Directory::remove_left(commit::Waiting* recycled) {
  for (const auto& one : left()) {
    commit::remove_left(*place_.files, place_.directory, place_.naming, one,
                        ownership_->ownership(), recycled);
    const std::lock_guard guard(tidied_mutex_);
    recycling_->forget_left(one.step);
  }
}

// All of it is taken by a save that makes so many data files, or none.
bool Directory::can_take(const commit::LeftData& some, int data_files) const {
  const auto waits = waits_.files();
  return recycles() && !some.partly && some.num_files <= data_files + 1 && waits &&
         waits->empty() && !policy_.has_savers;
}

bool Directory::can_take_left(int data_files) const {
  const auto all = left();
  return std::all_of(all.begin(), all.end(),
                     [&](const auto& some) { return can_take(some, data_files); });
}

commit::LeftData Directory::next_left() const {
  const auto all = left();
  return all.empty() ? commit::LeftData{} : all.front();
}

std::optional<commit::LeftData> Directory::choose_left(std::int64_t step, int data_files,
                                                       bool alone) {
  const auto all = left();
  const bool fit = std::all_of(all.begin(), all.end(), [&](const auto& some) {
    return step != some.step && can_take(some, data_files);
  });
  if (fit && !all.empty()) return all.front();
  remove_left(alone ? waiting() : nullptr);
  return std::nullopt;
}

bool Directory::any_volatile() const {
  return std::any_of(catalog_.begin(), catalog_.end(),
                     [](const auto& entry) { return entry.volatile_commit; });
}

void Directory::require_not_pinned(const CatalogEntry* there) const {
  const bool sound = there && (there->damage.empty() || there->unreadable);
  if (!sound || !is_pinned(place_, *there)) return;
  throw Error(Code::already_exists,
              cat("step ", there->step, " in ", place_.directory.string(), " is pinned"),
              "a pinned checkpoint is not replaced", "Unpin it, or save another step.")
      .at(place_.prefix(there->step).string());
}

bool Directory::is_taken(std::int64_t step) const {
  const auto* there = find(step);
  return there && (there->damage.empty() || there->unreadable) && !there->superseded &&
         !there->volatile_commit && !(restored_step_ && step > *restored_step_);
}

void Directory::require_replaceable(std::int64_t step, bool may_overwrite) const {
  const auto* there = find(step);
  require_not_pinned(there);
  const auto prefix = place_.prefix(step);
  const auto& format = format_of(policy_.format);
  if (!format.gives_way(*place_.files, prefix).value_or(true)) {
    const auto foreign = format.main_file(prefix).string();
    throw Error(Code::already_exists, cat(foreign, " is there"),
                "Cairn did not write it, and does not replace it",
                "Move it away, or save another step.")
        .at(foreign);
  }
  if (may_overwrite || !is_taken(step)) return;
  throw Error(Code::already_exists, cat("step ", step, " exists in ", place_.directory.string()),
              "it is whole and nothing has superseded it",
              cat("Save another step, use another directory, or set ", policy_.options_name,
                  "::overwrite."))
      .at(prefix.string());
}

// What is whole in one file or has savers' files has a temp directory of its own; so has what takes
// the place of a step, which may be lost: by that directory it is known which of the data are the
// save's. Records are left over those of an earlier save, which must not need them any more.
bool Directory::is_staged(const commit::Transaction& save) const {
  return staging_ && !spoiled_ && !save.direct && !commit::is_whole(save.main) &&
         !policy_.has_savers && !find(save.step) && !any_volatile();
}

// What cannot be removed of it is known to be ours by the directory beside it.
void Directory::abandon(const commit::Transaction& save) {
  const bool gone = commit::abandon(*place_.files, save, ownership_->ownership());
  if (!gone && is_in_staging(save)) staging_->leave();
}

void Directory::spoil(bool alone) {
  spoiled_ = staging_ && staging_->is_made();
  if (!spoiled_ || !alone || unwithdrawn_ || any_volatile()) return;
  staging_->end();
  spoiled_ = false;
}

// A tool that stores a checkpoint again makes no progress: nothing that is there may be superseded
// by it, and what is known of the save stays known. It takes the place of what it replaces, or else
// the one that it had.
void Directory::place_in_history(CheckpointMeta& meta) const {
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
  if (!place_.naming.numbered) meta.step = origin_->step;
  meta.wall_time_seconds = origin_->wall_time_seconds;
  meta.ranks = origin_->ranks;
  meta.savers = origin_->savers;
  meta.metric = origin_->metric;
}

std::optional<io::FileId> Directory::publish(const Prepared& prepared, int data_files,
                                             JoinedEntries joined,
                                             const std::optional<CatalogEntry>& there) const {
  std::optional<PinLock> pins;
  const auto sealed = [&] {
    ownership_->check();
    // It may have been pinned meanwhile; nobody pins or unpins while it is replaced.
    if (!there) return;
    pins = PinLock::take({place_.files, place_.directory}, policy_.owner_wait_seconds);
    require_not_pinned(&*there);
  };
  const auto is_committed = [&](const auto& one) { return holds(*place_.files, one); };
  const auto& save = prepared.draft.transaction();
  return format_of(save).publish(*place_.files, save, prepared.meta, data_files, std::move(joined),
                                 sealed, is_committed);
}

void Directory::committed(const Prepared& prepared, bool volatile_commit,
                          const std::optional<io::FileId>& index, bool is_new) {
  const auto& save = prepared.draft.transaction();
  const auto& meta = prepared.meta;
  CatalogEntry entry;
  entry.step = save.step;
  entry.format = policy_.format;
  entry.save.sequence = meta.sequence;
  entry.save.wall_time_seconds = meta.wall_time_seconds;
  entry.num_files = save.num_files;
  entry.save.ranks = meta.ranks;
  entry.save.parent = meta.parent;
  entry.save.identity = meta.uuid;
  entry.file = index;
  entry.save.metric = meta.metric;
  entry.data_bytes = meta.statistics ? meta.statistics->bytes : 0;
  entry.ours = true;
  entry.volatile_commit = volatile_commit;
  enter(catalog_, std::move(entry));
  not_completed_.clear();
  if (is_in_staging(save)) staging_->was_synced();  // before the index was renamed
  if (meta.sequence > last_before_) restored_step_.reset();
  // A later one, which gave way, may still be completed.
  if (unwithdrawn_ && unwithdrawn_->sequence < meta.sequence) unwithdrawn_.reset();
  // What was elsewhere is an ancestor of the state already, or was left behind.
  if (!is_new) {
    if (meta.sequence <= head_) head_here_ = std::max(head_here_, meta.sequence);
    return;
  }
  // An asynchronous save may commit after a later one that went elsewhere.
  head_ = std::max(meta.sequence, elsewhere_);
  head_here_ = meta.sequence;
}

// Whether an index is going to be set aside that tells what became of its checkpoint, while a power
// failure may still bring an older state file back; that must not name it as the newest.
bool Directory::may_retire(const commit::Transaction& save, const Expiry& expiry) const {
  return is_in_staging(save) && recycles() && expiry.lock && expiry.steps.size() == 1 &&
         state_file_ &&
         state_file_->model_checkpoint_path != commit::prefix_name(place_.naming, expiry.steps[0]);
}

// The checkpoint counts already: what fails here is said, not thrown.
Expiry Directory::tell(const commit::Transaction& save, std::vector<CatalogEntry>& entries) {
  Expiry expiry;
  try {
    // As it will be after step 8, which has no need to write it again.
    expiry = decide_expiry(place_, entries, policy_.keep, &pin_file_);
    const auto kept = expiry.without(entries);
    write_state_file(kept, may_retire(save, expiry) ? &save : nullptr);
    const bool volatile_commit = std::any_of(
        kept.begin(), kept.end(), [](const auto& entry) { return entry.volatile_commit; });
    if (place_.naming.numbered && policy_.keeps_state_file && !volatile_commit &&
        !restorable(kept).empty()) {
      told_ = steps_of(kept);
    }
  } catch (const Error& error) {
    log(LogLevel::warning,
        cat("step ", save.step, " is saved, but the state file is not: ", error.what()));
  }
  return expiry;
}

void Directory::update_xdmf(const std::vector<CatalogEntry>& entries) {
  if (!xdmf_) return;
  try {
    xdmf_->update(*place_.files, entries, *ownership_);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("the XDMF file is not up to date: ", error.what()));
  }
}

void Directory::tidy(const commit::Transaction& save, std::vector<CatalogEntry>& entries,
                     const Expiry& expiry, bool leaves_data,
                     std::optional<std::vector<std::string>> listing, commit::Waiting* recycled) {
  std::optional<commit::LeftData> now_left;
  try {
    // Where the look at the step has found no file of another format, there is none.
    const auto& format = format_of(save);
    const bool any =
        !save.replaces ||
        std::any_of(save.replaces->begin(), save.replaces->end(), [&](const auto& file) {
          const auto kind = commit::parse_name(file.entry, place_.naming).kind;
          return commit::is_main(kind) && kind != format.main_kind();
        });
    const bool other_format = any && others_give_way({place_.files, save.prefix()}, format.id());
    commit::clean_up(*place_.files, save, ownership_->ownership(), other_format, recycled);
    if (notes_) {
      note_saved(*place_.files, save.prefix(), place_.naming.numbered, policy_.format, save.uuid);
    }
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while tidying up after a save: ", error.what()));
    listing.reset();
  }
  update_xdmf(expiry.without(entries));
  try {
    RetentionHelp help;
    help.recycled = recycled;
    if (leaves_data && recycles() && left().size() < Recycling::most_left) help.left = &now_left;
    help.told = told_;
    help.notes = notes_;
    help.expiry = &expiry;
    if (listing) help.listing = &*listing;
    if (is_in_staging(save)) {
      help.committed = save.step;
      help.staging = &*staging_;
    }
    apply_retention(place_, entries, policy_.keep, ownership_->ownership(), help);
    if (staging_ && !now_left) staging_->sync_state_file();
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while removing old checkpoints: ", error.what()));
  }
  if (!now_left) return;
  const std::lock_guard guard(tidied_mutex_);
  recycling_->left.push_back(*now_left);
}

// What has committed without being durable takes nothing away. What is saved right now is left
// alone: without renames its files are under their final names already.
bool Directory::tidy_later(const Draft& draft, int data_files, bool durable,
                           std::vector<CatalogEntry> entries, const Meanwhile& meanwhile) {
  const auto& save = draft.transaction();
  auto expiry = tell(save, entries);
  if (!durable) return false;
  std::erase_if(entries, [&](const auto& entry) {
    return std::find(meanwhile.steps.begin(), meanwhile.steps.end(), entry.step) !=
           meanwhile.steps.end();
  });
  const auto decisions = decide_retention(entries, policy_.keep);
  std::erase_if(expiry.steps, [&](const auto step) {
    return std::none_of(decisions.begin(), decisions.end(),
                        [&](const auto& one) { return one.step == step && !one.stays; });
  });
  std::vector<std::int64_t> before;
  for (const auto& entry : entries) before.push_back(entry.step);
  const bool staged = !save.staging.empty();
  auto* const recycled = meanwhile.takes_waiting ? nullptr : waiting();
  std::int64_t kept = -1;
  try {
    if (staging_) staging_->forget_retired();
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while an old index is removed: ", error.what()));
  }
  tidy(save, entries, expiry, staged, std::nullopt, recycled);
  try {
    if (!staged) remove_left(recycled);  // it was another save's
    if (recycled) {
      kept =
          commit::trim_recycled(*place_.files, place_.directory, place_.naming, data_files, waits_);
    }
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while data files are kept for the next save: ", error.what()));
  }
  const std::lock_guard guard(tidied_mutex_);
  recycled_bytes_ = kept;
  for (const auto step : before) {
    const bool stays = std::any_of(entries.begin(), entries.end(),
                                   [&](const auto& entry) { return entry.step == step; });
    if (!stays) tidied_.push_back(step);
  }
  return true;
}

void Directory::apply_tidied() {
  const std::lock_guard guard(tidied_mutex_);
  for (const auto step : tidied_) {
    std::erase_if(catalog_, [&](const auto& entry) { return entry.step == step; });
  }
  tidied_.clear();
}

std::int64_t Directory::take_recycled_bytes() {
  const std::lock_guard guard(tidied_mutex_);
  return std::exchange(recycled_bytes_, -1);
}

Directory::Withdrawn Directory::withdraw(const Draft& draft) {
  const auto& save = draft.transaction();
  waits_.forget();
  if (save.files.takes && recycling_) {
    const std::lock_guard guard(tidied_mutex_);
    recycling_->left.push_back(*save.files.takes);
    recycling_->left.back().partly = true;
  }
  try {
    ownership_->check();
    abandon(save);
    return Withdrawn::gone;
  } catch (const Error& error) {
    // Whoever owns the directory now may have completed this save, or be about to.
    if (is_lost()) {
      if (is_in_staging(save)) staging_->leave();
      return Withdrawn::not_ours;
    }
    log(LogLevel::warning, cat("while removing what a failed save left: ", error.what()));
    unwithdrawn_ = save;
    return Withdrawn::stays;
  }
}

// Whether the directory has another owner. Not, where that cannot be found out.
bool Directory::is_lost() const {
  try {
    ownership_->check();
    return false;
  } catch (const Error& error) {
    return error.code() == Code::busy;
  }
}

}  // namespace cairn
