// How a save gets its draft: by a look at the directory, or by numbers that ranks have agreed on.
#include <algorithm>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "store/commit/recycled.hpp"
#include "store/contents/format.hpp"
#include "store/directory/directory.hpp"
#include "store/directory/file_draft.hpp"

namespace cairn {
namespace {

void require_free(const Location& place, std::int64_t step, std::int64_t bytes) {
  constexpr std::int64_t slack_bytes = std::int64_t{4} << 20;  // index, records, metadata
  const auto free = place.files->free_bytes(place.directory);
  if (free >= bytes + slack_bytes) return;
  const auto text = [](std::int64_t of) { return bytes_text(static_cast<double>(of)); };
  throw Error(Code::no_space,
              cat("step ", step, " needs ", text(bytes), ", and ", text(slack_bytes),
                  " for its index, records and metadata, in ", place.directory.string(), ", where ",
                  text(free), " are free"),
              "nothing was written", "Free space.")
      .at(place.directory.string());
}

// Of these steps, and of one more.
std::int64_t highest(std::int64_t step, const std::vector<CatalogEntry>& entries) {
  for (const auto& entry : entries) step = std::max(step, entry.step);
  return step;
}

}  // namespace

bool Directory::is_simple(std::int64_t step, int data_files) const {
  if (owned_.staging && (!owned_.staging->is_durable() || spoiled_)) return false;
  // Data that was left is under names that the save may need, or has had such names.
  const bool higher = step > highest(highest_, history_.catalog());
  return higher && !unwithdrawn_ && place_.atomic_rename && sequences_.has_next() &&
         !sequences_.is_within_reach(step) && !history_.any_volatile() &&
         owned_.recycling.can_take_left(data_files);
}

DraftId Directory::offer(int data_files) {
  DraftId id;
  id.sequence = sequences_.last() + 1;
  id.uuid = commit::random_uuid();
  commit::Transaction shaped;
  format_of(policy_.format).shape(shaped, data_files);
  id.data_files = data_files;
  id.num_files = shaped.num_files;
  id.files.recycled_bytes = owned_.recycling.take_bytes();
  if (owned_.staging && owned_.staging->is_made()) {
    id.files.staging = commit::parse_uuid(owned_.staging->uuid());
    const auto left = owned_.recycling.next_left();
    if (left.step >= 0) id.files.recycled_bytes = left.bytes;
    id.files.left_step = left.step;
    id.files.left_files = left.num_files;
  }
  // Nothing waits, so all files are new.
  if (id.files.recycled_bytes == 0) id.files.recycled_bytes = -1;
  return id;
}

void Directory::use(const DraftId& id) {
  highest_ = std::max(id.step, highest(highest_, history_.catalog()));
  sequences_.use(id.sequence);
  if (id.files.recycled_bytes >= 0) owned_.recycling.take_waiting();
  if (id.files.left_step >= 0) owned_.recycling.take(id.files.left_step);
}

Draft Directory::join(const DraftId& id) const {
  commit::Transaction save{place_.directory, place_.naming, id.step, commit::uuid_text(id.uuid)};
  format_of(policy_.format).shape(save, 0);
  save.num_files = static_cast<int>(id.num_files);  // rank 0 may have raised it
  save.sequence = id.sequence;
  save.direct = !place_.atomic_rename;
  save.records = id.records != 0;
  save.slot = static_cast<int>(id.slot);
  save.files.recycle = id.files.recycled_bytes >= 0;
  save.files.direct_io = policy_.direct_io;
  save.files.skip_unchanged = policy_.skip_unchanged;
  save.files.read_every = policy_.read_every;
  save.files.most_names = policy_.most_names;
  save.files.stripes = policy_.stripes_of(static_cast<int>(id.data_files));
  save.files.stripes_yield = policy_.stripes == 0;
  if (id.files.left_step >= 0)
    save.files.takes = {id.files.left_step, static_cast<int>(id.files.left_files)};
  if (id.files.shared_step >= 0) {
    save.files.shares = {id.files.shared_step, static_cast<int>(id.files.shared_files),
                         id.files.shared_sequence};
  }
  if (id.files.staging.high != 0 || id.files.staging.low != 0)
    save.staging = commit::uuid_text(id.files.staging);
  auto prefix = save.prefix();
  // Files of a checkpoint without a number wait where rank 0 moves them, so nothing is known of
  // them then.
  const bool compares = policy_.recycle && place_.naming.numbered && !save.direct &&
                        policy_.skip_unchanged != SkipUnchanged::off;
  // Where many checkpoints stay, most jobs end before hashes of their first saves could serve.
  constexpr int soon = 16;
  if (compares && policy_.keep.last > 0 && policy_.keep.last <= soon) known_->will_write_over();
  return {
      std::make_unique<FileDraft>(place_.files, std::move(save), compares ? known_.get() : nullptr),
      id, policy_.format, std::move(prefix)};
}

// Makes the save's temp directory, or takes a place for it in the staging directory.
void Directory::make_temp(commit::Transaction& save) {
  if (is_staged(save)) {
    save.staging = owned_.staging->make(save.files);
    save.opened_staging = owned_.staging->opened();
    save.retired = owned_.staging->take_retired(save.step);
    if (save.records) owned_.staging->make_durable();
  } else if (owned_.staging) {
    owned_.staging->forget_retired();
  }
  commit::begin(*place_.files, save);
  // Another owner sees a directory that was made before it came, and renames it, so that nothing of
  // this save succeeds. A directory that was made later has to go.
  if (!save.direct && save.staging.empty()) try {
      owned_.name->check();
    } catch (const Error&) {
      commit::discard_empty(*place_.files, save.temp());
      throw;
    }
}

// Otherwise a job that forgot to restore would lose, without a word, what it should have restored.
void Directory::warn_of_others(std::int64_t step) {
  if (warned_ || !place_.naming.numbered || !history_.is_unrelated()) return;
  const auto live = restorable(history_.catalog());
  const auto ours =
      std::count_if(live.begin(), live.end(), [](const auto* one) { return one->ours; });
  const auto last = policy_.keep.last;
  const bool lets_go = last > 0 && ours >= last;
  if (ours == 0 || (!lets_go && step > live.front()->step)) return;
  warned_ = true;
  log(LogLevel::warning,
      cat("this run saves into ", place_.directory.string(), ", and has restored none of the ",
          ours, ours == 1 ? " checkpoint" : " checkpoints", " there (the newest is step ",
          live.front()->step, "): ",
          lets_go ? "they count as an older run's, and the rules of keep let them go first"
                  : "steps that are not lower are left behind by it",
          ". Restore first, pin what is to stay, or use another directory."));
}

// If a save failed because the whole directory was removed, this throws an error that says so.
void Directory::tell_if_removed(const Error& error) const {
  if (error.code() == Code::not_found) owned_.name->ownership().require_there();
}

// What may refuse the save comes first, then its number, then its temp directory. Only with that
// directory are the files used up that the save will overwrite, so a refused save leaves them to
// the next one.
Draft Directory::begin_save(const Intent& intent) try {
  const auto step = intent.step;
  const auto data_files = intent.data_files;
  const bool alone = intent.alone;
  make_durable();
  sequences_.require(step);
  require_replaceable(step, intent.may_overwrite);
  warn_of_others(step);
  const auto before = highest(highest_, history_.catalog());
  // A lower step's files are new, so that none has had the name of a higher one (recycled.hpp).
  const bool lower = step < before;
  const auto takes = owned_.recycling.choose_left(data_files, alone && !lower, step > before);
  const auto recycled = takes                      ? takes->bytes
                        : owned_.recycling.is_on() ? owned_.recycling.trim(lower ? 0 : data_files)
                                                   : 0;
  // The next tidying counts these bytes anew.
  owned_.recycling.take_bytes();
  if (recycled < intent.bytes) require_free(place_, step, intent.bytes - recycled);
  DraftId id{.step = step,
             .uuid = commit::random_uuid(),
             .data_files = data_files,
             .records = intent.records,
             .slot = intent.slot};
  commit::Transaction save{place_.directory,           place_.naming,  step,
                           commit::uuid_text(id.uuid), data_files + 1, !place_.atomic_rename};
  // A crash in the commit of a direct save is repaired by completing it, which takes records.
  save.records = intent.records || save.direct;
  save.files.stripes = policy_.stripes_of(data_files);
  save.files.stripes_yield = policy_.stripes == 0;
  format_of(policy_.format).shape(save, data_files);
  listing_ = commit::avoid_counts_in_use(*place_.files, save);
  // The number is taken before the check of the ownership: a number that was taken after another
  // owner had come could be higher than that owner's.
  const auto sequence = save.sequence = intent.sequence < 0 ? sequences_.next() : intent.sequence;
  if (save.direct || unwithdrawn_) owned_.name->check();
  if (unwithdrawn_) {
    owned_.abandon(*place_.files, *unwithdrawn_);
    unwithdrawn_.reset();
    listing_.reset();
    spoil(alone);
  }
  if (spoiled_) spoil(alone);
  if (save.direct && put_back_undecided(place_, step)) {
    std::erase_if(history_.catalog(), [&](const auto& entry) { return entry.step == step; });
  }
  make_temp(save);
  highest_ = std::max(step, before);
  owned_.recycling.take_waiting();
  if (takes) {
    save.files.takes = takes;
    owned_.recycling.take(takes->step);
  }
  id.sequence = sequence;
  id.num_files = save.num_files;
  id.files.recycled_bytes = owned_.recycling.is_on() ? recycled : -1;
  if (takes) {
    id.files.left_step = takes->step;
    id.files.left_files = takes->num_files;
  }
  if (!save.staging.empty()) id.files.staging = commit::parse_uuid(save.staging);
  const auto shared = intent.shares ? history_.shares(*intent.shares) : std::nullopt;
  if (shared) {
    id.files.shared_step = shared->step;
    id.files.shared_files = shared->num_files;
    id.files.shared_sequence = shared->sequence;
  }
  auto draft = join(id);
  auto& mine = transaction_of(draft);
  mine.retired = std::move(save.retired);
  mine.opened = std::move(save.opened);
  mine.replaces = std::move(save.replaces);
  return draft;
} catch (const Error& error) {
  tell_if_removed(error);
  throw;
}

void Directory::look_before(Draft& draft, std::int64_t bytes) const try {
  // The count of files is raised before anything can fail: a withdrawal must not remove files of
  // another checkpoint that has the same count.
  auto& save = transaction_of(draft);
  const auto recycled = draft.id().files.recycled_bytes;
  const auto count = save.num_files;
  commit::avoid_counts_in_use(*place_.files, save);
  if (save.num_files != count) {
    throw Error(Code::already_exists,
                cat("data files of step ", save.step, " are in ", place_.directory.string()),
                "no checkpoint refers to them, and Cairn did not write them",
                "Move them away, or save another step.")
        .at(save.prefix().string());
  }
  if (recycled < bytes)
    require_free(place_, save.step, bytes - std::max<std::int64_t>(recycled, 0));
  if (save.staging.empty()) owned_.name->check();
} catch (const Error& error) {
  tell_if_removed(error);
  throw;
}

void Directory::remove_untaken(const Draft& draft, int first, int end) const {
  const auto& taken = transaction_of(draft).files.takes;
  if (!taken) return;
  std::vector<commit::SeenFile> files;
  const auto prefix = commit::prefix_name(place_.naming, taken->step);
  for (int file = first; file < std::min(end, taken->num_files); ++file) {
    files.push_back({commit::data_name(prefix, file, taken->num_files)});
  }
  commit::Removal(*place_.files, place_.directory, owned_.name->ownership()).remove(files);
}

}  // namespace cairn
