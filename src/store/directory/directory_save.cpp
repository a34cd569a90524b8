// What rank 0 does to the directory in a save. The numbers of steps are those of the protocol
// (store/commit/protocol.cpp).
#include <algorithm>
#include <exception>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "store/commit/recycled.hpp"
#include "store/contents/format.hpp"
#include "store/contents/notes.hpp"
#include "store/directory/directory.hpp"
#include "store/directory/file_draft.hpp"
#include "store/directory/pins.hpp"

namespace cairn {
namespace {

void require_not_pinned(const Location& place, const CatalogEntry* there) {
  const bool sound = there && (there->damage.empty() || there->unreadable);
  if (sound) require_unpinned(place, *there);
}

// Whether the directory has another owner. False if that cannot be found out.
bool is_lost(const commit::OwnedName& owner) {
  try {
    owner.check();
    return false;
  } catch (const Error& error) {
    return error.code() == Code::busy || error.code() == Code::not_found;
  }
}

}  // namespace

void Directory::require_replaceable(std::int64_t step, bool may_overwrite) const {
  require_not_pinned(place_, history_.find(step));
  const auto prefix = place_.prefix(step);
  const auto& format = format_of(policy_.format);
  if (!format.gives_way(*place_.files, prefix).value_or(true)) {
    const auto foreign = format.main_file(prefix).string();
    throw Error(Code::already_exists, cat(foreign, " is there"),
                "Cairn did not write it, and does not replace it",
                "Move it away, or save another step.")
        .at(foreign);
  }
  if (may_overwrite || !history_.is_taken(step)) return;
  const auto* there = history_.find(step);
  throw Error(Code::already_exists, cat("step ", step, " exists in ", place_.directory.string()),
              there && there->unreadable ? cat("it cannot be read now: ", there->damage)
                                         : "it is whole and nothing has superseded it",
              cat("Save another step, use another directory, or set ", policy_.options_name,
                  "::overwrite."))
      .at(prefix.string());
}

// Whether a save goes through the staging directory. A save that is whole in one file or has
// savers' files has a temp directory of its own. So has a save over a step that is there: if that
// step is lost, the directory tells which of the data are the save's. And while a commit may not be
// durable, the records that could complete it must not be overwritten.
bool Directory::is_staged(const commit::Transaction& save) const {
  return owned_.staging && !spoiled_ && !save.direct && !commit::is_whole(save.main) &&
         !policy_.has_savers && !history_.find(save.step) && !history_.any_volatile();
}

void Directory::spoil(bool alone) {
  spoiled_ = owned_.staging && owned_.staging->is_made();
  if (!spoiled_ || !alone || unwithdrawn_ || history_.any_volatile()) return;
  owned_.staging->end();
  spoiled_ = false;
}

std::optional<io::FileId> Directory::publish(Prepared& prepared, int data_files,
                                             JoinedEntries joined,
                                             const std::optional<CatalogEntry>& there) try {
  auto& save = transaction_of(prepared.draft);
  save.named = prepared.draft.named();
  if (owned_.is_in_staging(save)) {  // the index overwrites one that is gone
    if (!save.retired) save.retired = owned_.staging->take_retired(save.step);
    save.opened_staging = owned_.staging->opened();
  }
  std::optional<PinLock> pins;
  const auto sealed = [&] {
    owned_.name->check();
    // The step that is replaced may have been pinned meanwhile. The lock is held, so that nobody
    // pins it until it is replaced.
    if (!there) return;
    pins = PinLock::take({place_.files, place_.directory}, policy_.owner_wait_seconds);
    require_not_pinned(place_, &*there);
  };
  const auto is_committed = [&](const auto& one) { return holds(*place_.files, one); };
  return format_of(save).publish(*place_.files, save, prepared.meta, data_files, std::move(joined),
                                 sealed, is_committed);
} catch (const Error& error) {
  tell_if_removed(error);
  throw;
}

void Directory::committed(const Prepared& prepared, bool volatile_commit,
                          const std::optional<io::FileId>& index, bool is_new) {
  const auto& save = transaction_of(prepared.draft);
  auto entry = entry_of(prepared);
  entry.file = index;
  entry.volatile_commit = volatile_commit;
  history_.committed(std::move(entry), is_new);
  if (owned_.is_in_staging(save)) owned_.staging->was_synced();  // before the index was renamed
  // The commit ends an earlier save that could not be withdrawn. A later one, which gave way to
  // another save, may still be completed.
  if (unwithdrawn_ && unwithdrawn_->sequence < prepared.meta.sequence) unwithdrawn_.reset();
  recorder_.saved(save.step);
  if (policy_.metrics.empty()) return;
  metrics_.saved(prepared.meta);
  // Counts the checkpoints that will stay after this save's retention.
  const auto live = restorable(history_.catalog());
  const auto decisions = decide_retention(history_.catalog(), policy_.keep);
  const auto stay = std::count_if(live.begin(), live.end(), [&](const auto* one) {
    return decisions[static_cast<std::size_t>(one - history_.catalog().data())].stays;
  });
  metrics_.write(place_, policy_.metrics, stay, recorder_.status());
}

// Rank 0 alone is here, so it must not throw: it would leave the way that the others take.
void Directory::save_failed(std::int64_t step, const Error& error) try {
  if (policy_.read_only || error.code() == Code::busy || !owned_.name || is_lost(*owned_.name))
    return;
  const auto live = restorable(history_.catalog());
  recorder_.failed(step, error, live.empty() ? -1 : live.front()->step,
                   live.empty() ? 0 : live.front()->save.wall_time_seconds);
  if (policy_.metrics.empty()) return;
  metrics_.failed();
  metrics_.write(place_, policy_.metrics, std::ssize(live), recorder_.status());
} catch (const std::exception& lost) {  // such as no memory
  log(LogLevel::info, cat("that a save failed is not told in the directory: ", lost.what()));
}

void Directory::tell(const Draft& draft) {
  expiry_ = upkeep_.tell(transaction_of(draft), history_.catalog());
}

void Directory::tidy(const Draft* draft) {
  // The listing is that of the save's begin. The save itself has only changed its own step.
  auto listing = std::exchange(listing_, std::nullopt);
  const auto expiry = std::exchange(expiry_, {});
  if (!draft) return;
  const auto& save = transaction_of(*draft);
  if (save.staging.empty()) listing.reset();
  upkeep_.tidy(save, history_.catalog(), expiry, true, std::move(listing),
               owned_.recycling.waiting());
}

// On a copy of the catalog: the caller's thread goes on with its own.
std::function<bool()> Directory::tidy_later(const Draft& draft, int data_files, bool durable,
                                            Meanwhile meanwhile) {
  owned_.recycling.take_bytes();  // a save that begins before this is done takes none
  return [this, save = transaction_of(draft), data_files, durable, entries = history_.catalog(),
          meanwhile = std::move(meanwhile)]() mutable {
    return tidy_behind(save, data_files, durable, std::move(entries), meanwhile);
  };
}

// A commit that may not be durable lets nothing go. Steps that are being saved are left alone:
// without renames their files are under their final names already.
bool Directory::tidy_behind(const commit::Transaction& save, int data_files, bool durable,
                            std::vector<CatalogEntry> entries, const Meanwhile& meanwhile) {
  auto expiry = upkeep_.tell(save, entries);
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
  // Other threads learn which steps have gone only from history_, when all is done.
  std::vector<std::int64_t> before;
  for (const auto& entry : entries) before.push_back(entry.step);
  const bool staged = !save.staging.empty();
  auto* const recycled = meanwhile.takes_waiting ? nullptr : owned_.recycling.waiting();
  std::int64_t kept = -1;
  try {
    if (owned_.staging) owned_.staging->forget_retired();
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while an old index is removed: ", error.what()));
  }
  upkeep_.tidy(save, entries, expiry, staged, std::nullopt, recycled);
  try {
    if (!staged) owned_.recycling.remove_left(recycled);  // it was another save's
    if (recycled) kept = owned_.recycling.trim(data_files);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while data files are kept for the next save: ", error.what()));
  }
  std::erase_if(before, [&](const auto step) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& entry) { return entry.step == step; });
  });
  history_.tidied(before);
  std::erase_if(entries, [](const auto& entry) { return entry.thinned.empty(); });
  history_.thinned(entries);
  owned_.recycling.set_bytes(kept);  // after it: who knows of the bytes knows what has gone
  return true;
}

Directory::Withdrawn Directory::withdraw(const Draft& draft) {
  const auto& save = transaction_of(draft);
  owned_.recycling.withdrawn(save.files.takes);
  try {
    owned_.name->check();
    owned_.abandon(*place_.files, save);
    return Withdrawn::gone;
  } catch (const Error& error) {
    // The present owner may have completed this save, or be about to.
    if (is_lost(*owned_.name)) {
      if (owned_.is_in_staging(save)) owned_.staging->leave();
      return Withdrawn::not_ours;
    }
    log(LogLevel::warning, cat("while removing what a failed save left: ", error.what()));
    unwithdrawn_ = save;
    return Withdrawn::stays;
  }
}

}  // namespace cairn
