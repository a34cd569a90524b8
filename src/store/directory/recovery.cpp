#include "store/directory/recovery.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/index.hpp"
#include "store/commit/names.hpp"
#include "store/commit/recycled.hpp"
#include "store/commit/removal.hpp"
#include "store/commit/staging_directory.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/notes.hpp"
#include "store/directory/candidates.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/thin.hpp"
#include "store/directory/two_formats.hpp"

namespace cairn {
namespace {
// How many data files an index is of; -1 if it does not say.
int try_count_files(const std::string& index) {
  try {
    return bundle::parse_index(index).num_files;
  } catch (const Error&) {
    return -1;
  }
}

// Whether these are the bytes of an index that another program made.
bool is_foreign_index(const std::string& bytes) {
  try {
    const auto index = bundle::parse_index(bytes);
    return std::none_of(index.tensors.begin(), index.tensors.end(),
                        [](const auto& tensor) { return tensor.key.starts_with(own_key_prefix); });
  } catch (const Error&) {
    return false;  // it was being overwritten
  }
}

void roll_forward(const Location& place, const Candidate& candidate,
                  const commit::Ownership& owner) {
  const auto is_committed = [&](const auto& save) { return holds(*place.files, save); };
  owner.check();
  const auto& format = format_of(candidate.save);
  // A former owner that lives may still have the file of an HDF5 save open.
  if (!owner.alone()) commit::take_over_part(*place.files, candidate.save);
  format.publish(
      *place.files, candidate.save, candidate.meta, static_cast<int>(candidate.paths.size()),
      {candidate.tensors, {}}, [&] { owner.check(); }, is_committed);
  log(LogLevel::info, cat("completed the save of step ", candidate.save.step,
                          ", whose job died before its commit"));
}

// A direct save that was replacing an index when it died, and cannot be completed.
struct Reversal {
  commit::Transaction save;
  commit::OldIndex old;
};

// The old indexes of the steps that have no whole index now.
std::vector<Reversal> find_reversals(const Location& place, const std::vector<std::string>& listing,
                                     const std::vector<Candidate>& completed, Undecided& undecided,
                                     std::optional<std::int64_t> only_step = std::nullopt) {
  std::vector<Reversal> reversals;
  auto& files = *place.files;
  for (const auto& name : listing) {
    const auto parsed = commit::parse_name(name, place.naming);
    if (parsed.kind != commit::ParsedName::Kind::temp_directory || !parsed.direct) continue;
    const bool becomes = std::any_of(completed.begin(), completed.end(), [&](const auto& other) {
      return other.save.step == parsed.step;
    });
    if (becomes || undecided.steps.count(parsed.step)) continue;
    if (only_step && parsed.step != *only_step) continue;
    const commit::Transaction save{
        place.directory, place.naming, parsed.step, parsed.uuid, 0, true};
    try {
      const auto old = commit::read_old_index(files, save);
      if (!old) continue;
      if (io::exists(files, save.index())) try {
          bundle::parse_index(
              io::read_file(files, save.index(), std::numeric_limits<std::int64_t>::max()));
          continue;
        } catch (const Error& error) {
          if (error.code() != Code::data_loss) throw;
        }
      reversals.push_back({save, *old});
    } catch (const Error& error) {
      if (error.code() == Code::unavailable) throw;
      log(LogLevel::warning, cat("save ", name, " cannot be looked at now: ", error.what()));
      undecided.temps.insert(name);
      undecided.steps.insert(parsed.step);
    }
  }
  return reversals;
}

// Puts the old index back. If there was none and no other trace of a checkpoint is left, the torn
// index is all that ever named the step: then state file and notes must forget the step before its
// data goes, or it would count as lost. Returns whether that is so.
bool reverse(const Location& place, const Reversal& reversal) {
  auto& files = *place.files;
  commit::put_back(files, reversal.save);
  const auto prefix = reversal.save.prefix();
  if (reversal.old.bytes || find_lost_at(files, prefix)) return false;
  retire(files, place.directory, place.naming, {prefix});
  return true;
}

// Finds whatever of ours no checkpoint refers to.
class Debris {
 public:
  Debris(const Location& place, const Undecided& undecided, const TwoFormats& two, bool ours)
      : place_(place), files_(*place.files), undecided_(undecided), two_(two), ours_(ours) {}

  // What is debris once these saves are completed and those are reversed, in the order of removal:
  // an index before its data, temp directories last, since they prove that the rest is ours.
  std::vector<RecoveryStep> find(const std::vector<Candidate>& completed,
                                 const std::vector<Reversal>& reversals) {
    const auto names = files_.list(place_.directory);
    // Another program may be saving under this name, data first: orphans are ours only where we
    // have saved.
    ours_ |= !completed.empty();
    for (const auto& name : names) look_at(name, commit::parse_name(name, place_.naming));
    count_files(completed, reversals);
    std::vector<RecoveryStep> debris;
    for (const auto& name : names) {
      auto why = why_debris(name, commit::parse_name(name, place_.naming));
      if (why.empty()) continue;
      auto& step = debris.emplace_back(RecoveryStep{name, false, std::move(why)});
      step.unfinished = undecided_.unfinished.count(name) > 0;
      if (const auto status = files_.status(place_.directory / name)) step.id = status->id;
    }
    for (const auto& mark : list_marks(files_, place_.directory, place_.naming)) {
      const bool goes = mark.worthless || !files_of_step_.count(mark.step);
      if (goes) debris.push_back({mark.entry, false, mark.why});
    }
    for (const auto& file : commit::list_recycled(files_, place_.directory, place_.naming))
      debris.push_back({file.string(), false, "kept for a next save to overwrite"});
    std::stable_partition(debris.begin(), debris.end(),
                          [&](const auto& step) { return replaced_.count(step.entry) > 0; });
    std::stable_partition(debris.begin(), debris.end(), [&](const auto& step) {
      return commit::parse_name(step.entry, place_.naming).kind != Kind::temp_directory;
    });
    return debris;
  }

 private:
  using Kind = commit::ParsedName::Kind;

  void look_at(const std::string& name, const commit::ParsedName& parsed) {
    ours_ |= parsed.kind == Kind::temp_directory;
    for (const auto* format : all_formats()) {
      if (parsed.kind == format->main_kind()) look_at_main(name, parsed.step, *format);
    }
  }

  void look_at_main(const std::string& name, std::int64_t step, const CheckpointFormat& format) {
    const auto at = two_.replaced.find(step);
    const bool is_replaced = at != two_.replaced.end() && at->second.format == format.id();
    // If it cannot be read, the number of its data files is unknown, and all of them stay.
    std::optional claim(CheckpointFormat::Claim{});
    try {
      claim = format.claim(files_, place_.prefix(step));
    } catch (const Error& error) {
      tell_unreadable(step, error);
    }
    if (!claim) return;
    ours_ |= claim->ours;
    // If a step is there in two formats, the one with data files of their own says how many.
    auto& data_files = files_of_step_.emplace(step, 0).first->second;
    if (!is_replaced && claim->data_files != 0) data_files = claim->data_files;
    if (is_replaced) replaced_.insert(name);
  }

  // Counts files of steps whose index is missing, or will be another after the recovery.
  void count_files(const std::vector<Candidate>& completed,
                   const std::vector<Reversal>& reversals) {
    for (const auto& candidate : completed) {
      const auto& save = candidate.save;
      files_of_step_[save.step] = format_of(save).has_data_files() ? save.num_files : 0;
    }
    for (const auto& [save, old] : reversals) {
      files_of_step_.erase(save.step);
      if (old.bytes) files_of_step_[save.step] = try_count_files(*old.bytes);
    }
    // The data of a checkpoint that has lost its index are no debris: nothing else is left of it.
    for (const auto& [step, lost] : find_lost_steps(files_, place_.directory, place_.naming)) {
      files_of_step_.emplace(step, lost.num_files);
    }
    for (const auto step : undecided_.steps) files_of_step_[step] = -1;
  }

  // "": it stays.
  std::string why_debris(const std::string& name, const commit::ParsedName& parsed) const {
    if (undecided_.temps.count(name) || two_.kept.count(name)) return "";
    if (parsed.kind == Kind::temp_directory) return why_left(name, parsed);
    if (replaced_.count(name)) return "an older save of a step that is there in another format";
    if (parsed.kind == Kind::state_temporary) return "a state file that was not finished";
    if (parsed.kind == Kind::xdmf_temporary) return "an XDMF file that was not finished";
    if (parsed.kind != Kind::data || !ours_ || undecided_.any_step) return "";
    const auto at = files_of_step_.find(parsed.step);
    const bool is_live =
        at != files_of_step_.end() && (at->second == -1 || at->second == parsed.count);
    return is_live ? "" : "data that no index refers to";
  }

  std::string why_left(const std::string& temp, const commit::ParsedName& parsed) const {
    const std::string why =
        commit::is_staging(parsed) ? "what an owner that has died saved from" : "";
    const auto unfinished = undecided_.unfinished.find(temp);
    if (unfinished != undecided_.unfinished.end()) {
      return cat(why, why.empty() ? "" : ", with ", unfinished->second);
    }
    return why.empty() ? "left of a save that is committed, damaged or given up" : why;
  }

  const Location& place_;
  io::FileSystem& files_;
  const Undecided& undecided_;
  const TwoFormats& two_;
  bool ours_;
  std::map<std::int64_t, int> files_of_step_;  // -1: an index that cannot be read; leave its data
  std::set<std::string> replaced_;
};

// False if it stays. It gets a name of ours first: a later owner may have given it one, to complete
// the save.
bool remove_unfinished(const Location& place, const commit::ParsedName& parsed,
                       const commit::Ownership& owner) {
  commit::Transaction save{place.directory, place.naming, parsed.step, parsed.uuid, 0,
                           parsed.direct};
  save.keeper = parsed.keeper;
  // What was there while the directory was ours does not belong to a later owner.
  owner.check();
  if (!save.direct && owner.atomic_rename()) commit::keep(*place.files, save, owner);
  owner.check();
  return commit::remove_temp(*place.files, save.temp());
}

// What cannot be removed stays, since a job must not fail for that. A process that is no longer the
// owner gets the error: it must not go on.
std::vector<RecoveryStep> collect_debris(const Location& place, const Undecided& undecided,
                                         TwoFormats two, bool ours,
                                         const commit::Ownership& owner) {
  auto& files = *place.files;
  std::optional<PinLock> pins;
  if (!two.replaced.empty()) {
    pins = PinLock::try_take(files, place.directory);
    two.leave_pinned(place, pins.has_value());
  }
  const auto debris = Debris(place, undecided, two, ours).find({}, {});
  const commit::Removal removal(files, place.directory, owner);
  bool synced = false, replaced = false, failed = false;
  std::vector<RecoveryStep> removed;
  for (const auto& step : debris) try {
      const auto path = place.directory / step.entry;
      const auto parsed = commit::parse_name(step.entry, place.naming);
      const bool is_replaced = commit::is_main(parsed.kind);
      // Older files of a step in two formats come first, and are durably gone before data goes.
      if (replaced && !is_replaced) files.sync_directory(place.directory);
      replaced = is_replaced;
      if (parsed.kind == commit::ParsedName::Kind::temp_directory) {
        // A temp directory is evidence, and goes only when the data is durably gone.
        if (failed) continue;
        if (!synced) files.sync_directory(place.directory);
        synced = true;
        if (!remove_unfinished(place, parsed, owner)) continue;
      } else if (is_replaced || parsed.kind == commit::ParsedName::Kind::data) {
        removal.remove({step.entry, step.id});
      } else {
        files.remove(path);
      }
      removed.push_back(step);
    } catch (const Error& error) {
      if (error.code() == Code::busy) throw;
      log(LogLevel::warning, cat("debris stays: ", error.what()));
      failed = true;
    }
  if (!debris.empty()) files.sync_directory(place.directory);
  return removed;
}

}  // namespace

std::string not_completed(std::int64_t step, const Error& error) {
  return cat("step ", step,
             ": it was written, and is completed when there is room: ", error.what());
}

bool holds(io::FileSystem& files, const commit::Transaction& save) {
  try {
    const auto there = read_contents_as(format_of(save).id(), files, save.prefix());
    if (!there.meta && !there.own.empty()) {
      throw Error(Code::data_loss, "the metadata of the checkpoint cannot be read")
          .at(save.prefix().string());
    }
    return there.meta && there.meta->uuid == save.uuid;
  } catch (const Error& error) {
    if (error.code() == Code::not_found) return false;
    throw;
  }
}

// Rank 0 changes the directory; all ranks share the reading. First it takes the staging directories
// away from former owners and gives files that were set aside their names back: before that nothing
// in the directory can be relied on.
Recovered recover(const Location& place, const Readers& readers, const commit::Ownership* owner) {
  Group& group = readers.group;
  std::vector<Candidate> candidates;
  Undecided undecided;
  std::int64_t count = 0;
  bool any_aside = false;
  run_and_agree(group, [&] {
    if (!readers.root()) return;
    // Renames of the last process may not be durable yet, and nothing may rely on them before.
    place.files->sync_directory(place.directory);
    commit::take_staging(*place.files, place.directory, place.naming, *owner, is_foreign_index);
    any_aside = !commit::put_back_aside(*place.files, place.directory, place.naming).empty();
    candidates = find_candidates(place, owner, undecided);
    count = static_cast<std::int64_t>(candidates.size());
  });
  group.all_reduce({&count, 1}, Group::Op::max);
  Recovered found;
  auto& any = found.any;
  for (std::int64_t i = 0; i < count; ++i) {
    // Other ranks need none: examine() sends them rank 0's.
    static const Candidate none;
    const auto& candidate = readers.root() ? candidates[static_cast<std::size_t>(i)] : none;
    std::string why;
    const auto finding = examine(place, readers, candidate, why);
    run_and_agree(group, [&] {
      if (!readers.root()) return;
      const auto leave = [&] {
        undecided.temps.insert(candidate.save.temp().filename().string());
        undecided.steps.insert(candidate.save.step);
      };
      if (finding == Soundness::whole) try {
          roll_forward(place, candidate, *owner);
          any = true;
          return;
        } catch (const Error& error) {  // a job may restore what there is
          if (error.code() != Code::no_space) throw;
          found.not_completed.push_back(not_completed(candidate.save.step, error));
          log(LogLevel::warning, found.not_completed.back());
          return leave();
        }
      if (finding == Soundness::damaged) {  // its records say that all bytes were durable
        log(LogLevel::warning, cat("a save of step ", candidate.save.step,
                                   ", which was written but not committed, is damaged: ", why));
      }
      if (finding == Soundness::unreadable) {
        log(LogLevel::info, cat("save of step ", candidate.save.step, " did not finish: ", why));
        leave();
      }
    });
  }
  std::vector<std::string> listing;
  run_and_agree(group, [&] {
    if (!readers.root()) return;
    listing = place.files->list(place.directory);
    for (const auto& reversal : find_reversals(place, listing, {}, undecided)) try {
        reverse(place, reversal);
        any |= reversal.old.bytes.has_value();
      } catch (const Error& error) {
        if (error.code() == Code::unavailable) throw;
        const auto& save = reversal.save;
        log(LogLevel::warning, cat("step ", save.step, " cannot be put back: ", error.what()));
        undecided.temps.insert(save.temp().filename().string());
        undecided.steps.insert(save.step);
      }
  });
  auto two = find_two_formats(place, readers, listing);
  run_and_agree(group, [&] {
    if (!readers.root()) return;
    finish_thinning(place, *owner);
    // A file that was set aside proves that Cairn has saved here.
    found.removed = collect_debris(place, undecided, std::move(two), any_aside, *owner);
    found.undecided = {undecided.temps.begin(), undecided.temps.end()};
    found.within_reach = undecided.within_reach;
  });
  return found;
}

void tell_removed(const Location& place, const Recovered& found) {
  // If there are many reasons, those that differ in the step only become one line: a job that
  // failed for days has left thousands.
  constexpr std::size_t most_lines = 16;
  std::map<std::string, std::vector<const RecoveryStep*>> by_reason;
  for (const auto& step : found.removed) by_reason[step.why].push_back(&step);
  if (by_reason.size() > most_lines) {
    by_reason.clear();
    for (const auto& step : found.removed) {
      auto reason = step.why;
      std::erase_if(reason, [](char c) { return c >= '0' && c <= '9'; });
      by_reason[reason].push_back(&step);
    }
  }
  for (const auto& [reason, steps] : by_reason) {
    const auto more = steps.size() - 1;
    log(steps.front()->unfinished ? LogLevel::warning : LogLevel::info,
        cat("removed from ", place.directory.string(), ": ", steps.front()->entry,
            more == 0 ? "" : cat(" and ", more, " more"), " (", steps.front()->why, ")"));
  }
}

bool put_back_undecided(const Location& place, std::int64_t step) {
  Undecided undecided;
  bool never_was = false;
  const auto listing = place.files->list(place.directory);
  for (const auto& reversal : find_reversals(place, listing, {}, undecided, step)) {
    never_was |= reverse(place, reversal);
  }
  if (undecided.steps.empty()) return never_was;
  throw Error(Code::io, cat("step ", step, " cannot be saved now"),
              "what an earlier save of it left behind cannot be read, and may be all that is left "
              "of the step",
              "Save another step, or try again.")
      .at(place.prefix(step).string());
}

std::vector<RecoveryStep> plan_recovery(const Location& place, const Readers& readers) {
  std::vector<RecoveryStep> steps;
  std::vector<Candidate> completed;
  Undecided undecided;
  const auto listing = place.files->list(place.directory);
  for (const auto& name : listing) {
    if (!commit::parse_aside_name(name, place.naming)) continue;
    steps.push_back({name, true, "it gets its name back: who removed it did not finish"});
  }
  if (const auto prefix = unfinished_thinning(place); !prefix.empty()) {
    steps.push_back({prefix, true, "tensors that were to go had not all gone"});
  }
  for (auto& candidate : find_candidates(place, nullptr, undecided)) {
    std::string why;
    if (examine(place, readers, candidate, why) != Soundness::whole) continue;
    steps.push_back({candidate.save.temp().filename().string(), true,
                     cat("step ", candidate.save.step, ": all its bytes were durable")});
    completed.push_back(std::move(candidate));
  }
  const auto reversals = find_reversals(place, listing, completed, undecided);
  for (const auto& [save, old] : reversals) {
    const auto index = save.index().filename().string();
    steps.push_back({index, old.bytes.has_value(),
                     old.bytes ? "it comes back: the save that was replacing it did not finish"
                               : "of a save that did not finish"});
  }
  const auto two = find_two_formats(place, readers, listing);
  for (auto& step : Debris(place, undecided, two, false).find(completed, reversals)) {
    const bool becomes = std::any_of(steps.begin(), steps.end(), [&](const auto& done) {
      return done.completes && done.entry == step.entry;
    });
    if (!becomes) steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace cairn
