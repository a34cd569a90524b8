// Restores by a manager: which checkpoint is tried next, and what a restore leaves behind for the
// next.
#include "session/restore_steps.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/restore/left_over.hpp"
#include "session/restore/restore.hpp"
#include "session/save/key_schedule.hpp"
#include "session/save/save_log.hpp"
#include "session/schedule/earlier_end.hpp"
#include "session/schedule/question_rounds.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/format.hpp"
#include "store/directory/marks.hpp"

namespace cairn {
// Storage that does not answer (unavailable) is none, and no reason to go on from an older step. A
// tensor that is not found, without a path, is one that was never saved: then the state does not
// fit. With a path, or without a tensor, a file is missing.
bool is_damage(const Error& error) {
  return error.code() == Code::data_loss || error.code() == Code::io ||
         (error.code() == Code::not_found && (error.tensor().empty() || !error.path().empty()));
}

// A restore that falls back must overwrite everything that the damaged checkpoint wrote to.
// Otherwise the state would be half of one checkpoint and half of another.
void require_overwritten(const Job& job, const Touched& failed, const Touched& touched,
                         const RestoreReport& report) {
  run_and_agree(*job.group, [&] {
    const auto refuse = [&](const std::string& what) {
      throw Error(Code::data_loss, cat(report.prefix, " has no ", what),
                  "a newer, damaged checkpoint had it, so that it now holds what was not proved",
                  "Restore into a fresh state, or set RestartOptions::verify_first.")
          .at(report.prefix);
    };
    for (const auto& key : failed.keys) {
      if (!touched.keys.count(key)) refuse(cat("tensor '", key, "'"));
    }
    for (const auto& saver : failed.savers) {
      if (!touched.savers.count(saver)) refuse(cat("data of saver '", saver, "'"));
    }
  });
}

namespace {

// The beginning of a line about a step.
std::string line_of(std::int64_t step) { return cat("step ", step, ": "); }

// The saves that a run leaves behind if it continues from this sequence, as far as the catalog
// knows them.
std::vector<PastSave> saved_after(const Store& store, std::int64_t sequence) {
  std::vector<PastSave> saves;
  for (const auto& entry : store.history().catalog()) {
    const auto& save = entry.save;
    if (save.sequence <= sequence) continue;
    saves.push_back({save.sequence, save.parent, entry.step, save.wall_time_seconds, save.ranks});
  }
  return saves;
}

}  // namespace

void tell_differences(const RestoreReport& report, const RestoreOptions& options) {
  if (!report.unused_keys.empty()) {
    const bool may_tell = options.unused != Unused::silent;
    log(may_tell ? LogLevel::warning : LogLevel::info,
        cat("of ", report.prefix, " the state has not wanted: ", groups_of(report.unused_keys),
            may_tell ? ". Add what was forgotten, or say that it is meant: RestoreOptions::unused "
                       "= Unused::silent"
                     : ""));
  }
  if (!report.kept_keys.empty()) {
    const bool were_named = !options.all_may_be_missing;
    log(were_named ? LogLevel::info : LogLevel::warning,
        cat(report.prefix,
            " has none of these, which stay as they are: ", groups_of(report.kept_keys)));
  }
}

// Restores one step, from its other format if the first one is damaged. Then notes in all parts of
// the engine that the run continues from it.
RestoreReport Restorer::restore_step(std::int64_t step, State& state, const RestoreOptions& options,
                                     Touched& touched, bool may_be_older) {
  std::optional<SharedIndex> index;
  RestoreReport report;
  const auto restore_from = [&](std::optional<Format> format) {
    const auto seen = viewed(job);
    const auto known = store.history().only_format_of(step);  // rank 0 has the catalog
    index.emplace(share_index(seen, job.prefix(step), format, known));
    require_metadata(step, index->contents());
    report = restore_state(seen, *index, state, options,
                           {.touched = &touched, .may_be_older = may_be_older});
  };
  try {
    restore_from(std::nullopt);
  } catch (const Error& error) {
    const auto twin = is_damage(error) ? twin_of(step) : std::nullopt;
    if (!twin) throw;
    if (job.root()) {
      log(LogLevel::warning, cat("step ", step, " is damaged, and restored from ",
                                 format_of(*twin).main_file(job.prefix(step)).string(),
                                 ", where it is, too: ", error.what()));
    }
    restore_from(twin);
  }
  const auto& contents = index->contents();
  report.step = step;
  if (job.root()) tell_differences(report, options);
  store.history().went_back_to(
      step, contents.meta ? std::optional(contents.meta->sequence) : std::nullopt);
  // The run continues from these numbers as they are, so tensors that are not finite are no news.
  for (auto& entry : store.history().catalog()) {
    if (entry.step == step && entry.not_finite) entry.not_finite->turned.clear();
  }
  if (elsewhere) elsewhere->went_back_to(contents.meta ? contents.meta->sequence : -1);
  if (job.root() && contents.meta) {
    save_log.went_back_to(*contents.meta, saved_after(store, contents.meta->sequence));
  }
  if (rounds) rounds->restored(step);
  key_schedule.begin_anew();
  return report;
}

// The other format in which the step is there, too.
std::optional<Format> Restorer::twin_of(std::int64_t step) {
  const auto message = from_root(*job.group, [&] {
    const auto twin = store.history().twin_of(step);
    return twin ? pack(*twin) : "";
  });
  if (message.empty()) return std::nullopt;
  return unpack<Format>(message);
}

void Restorer::remember_damage(std::int64_t step, const Error& error) {
  if (job.root()) store.remember_damage(step, error);
}

// If a restore failed because a rule had removed a tensor of the step, returns an error that says
// so.
std::optional<Error> Restorer::thinned(std::int64_t step, const Error& error) {
  const bool wants = error.code() == Code::not_found || error.code() == Code::invalid_argument;
  if (!wants || error.tensor().empty()) return std::nullopt;
  struct Told {
    std::string keys;
    std::int64_t after = -1, every = 0, newest = -1;
  };
  const auto message = from_root(*job.group, [&]() -> std::string {
    const auto* entry = store.history().find(step);
    const auto* went = entry ? entry->find_thinned(error.tensor()) : nullptr;
    if (!went) return "";
    Told told{went->keys, went->after, went->every};
    for (const auto* other : restorable(store.history().catalog())) {
      if (other->find_thinned(error.tensor())) continue;
      told.newest = other->step;
      break;
    }
    return pack(told);
  });
  if (message.empty()) return std::nullopt;
  const auto told = unpack<Told>(message);
  const bool never = told.every > 0;
  return Error(Code::not_found,
               cat("step ", step, " has no '", error.tensor(), never ? "'" : "' any more"),
               never ? cat("by the rule '", told.keys, "' one save in ", told.every, " has it")
               : told.after < 0
                   ? cat("cairn thin let '", told.keys, "' go")
                   : cat("thinned by the rule '", told.keys, "' after step ", told.after),
               cat(told.newest < 0 ? "No step here has it."
                                   : cat("The newest step that has it is ", told.newest, "."),
                   " To go without it leave it out of the state, or name it in "
                   "RestoreOptions::may_be_missing."))
      .at(job.prefix(step).string())
      .of_tensor(error.tensor());
}

// What a successor has removed or replaced is not damaged.
void Restorer::check_owner() {
  from_root(*job.group, [&]() -> std::string {
    store.check_owner();
    return "";
  });
}

// Reads the directory again. Throws if the directory as a whole is gone.
void Restorer::look_again() {
  from_root(*job.group, [&]() -> std::string {
    store.look_again();
    return "";
  });
}

Error tried_in_vain(const Job& job, const std::string& line) {
  const auto directory = job.directory.string();
  return Error(Code::data_loss, cat("no checkpoint in ", directory, " is restored"), line,
               cat("With restore.fall_back the next older one is taken. If it is sound after all: "
                   "cairn mark ",
                   directory, " STEP good; to go on from an older one: cairn mark ", directory,
                   " STEP bad."))
      .at(directory);
}

// The steps to try, newest first, and what is passed over before the first of them.
RestoreChoices Restorer::choose() {
  const auto message = from_root(*job.group, [&] {
    store.check_owner();  // the next one may have gone on, or back
    store.look_again();
    try {
      store.refresh_pins(store.history().catalog());
    } catch (const Error& error) {
      if (error.code() == Code::unavailable) throw;
      log(LogLevel::warning, cat("marks of checkpoints are not looked at: ", error.what()));
    }
    look_at_earlier_runs();
    if (!job.options.restore.finite || job.options.read_only) {
      for (auto& entry : store.history().catalog()) {
        if (entry.not_finite) entry.not_finite->turned.clear();
      }
    }
    auto choices = store.history().choices();
    add_those_elsewhere(choices);
    return pack(choices);
  });
  auto choices = unpack<RestoreChoices>(message);
  if (job.root()) {
    for (const auto* all : {&choices.marked, &choices.in_vain}) {
      for (const auto& [sequence, line] : *all) log(LogLevel::warning, cat("passed over: ", line));
    }
    for (const auto& one : choices.passed) log(LogLevel::warning, cat("passed over: ", one));
  }
  return choices;
}

// Finds out which steps earlier runs have restored in vain. Rank 0 of the owner.
void Restorer::look_at_earlier_runs() {
  const auto tries = job.options.restore.tries;
  auto* runs = tries > 0 && rounds ? rounds->runs() : nullptr;
  if (!runs) return;
  auto& before = runs->before();
  auto& catalog = store.history().catalog();
  std::int64_t newest = 0;
  for (const auto& entry : catalog) newest = std::max(newest, entry.save.sequence);
  // How the run before this one ended is judged once. A restore of this run itself is not judged
  // yet.
  if (!runs->is_under_way()) resolve_restored(job, before, newest);
  for (const auto& entry : catalog) {
    if (entry.mark == StepMark::good) before.in_vain.erase(entry.save.sequence);
  }
  for (auto& [sequence, one] : before.in_vain) one.passed_over = one.count >= tries;
  for (auto& entry : catalog) {
    const auto counted = before.in_vain.find(entry.save.sequence);
    const bool too_often = counted != before.in_vain.end() && counted->second.passed_over;
    entry.in_vain = too_often ? static_cast<int>(counted->second.count) : 0;
  }
}

// Rank 0. Adds checkpoints that were restored in vain and that only the nodes have.
void Restorer::add_those_elsewhere(RestoreChoices& choices) {
  const auto* runs =
      elsewhere && job.options.restore.tries > 0 && rounds ? rounds->runs() : nullptr;
  if (!runs) return;
  for (const auto& [sequence, one] : runs->history().in_vain) {
    if (!one.passed_over || choices.whole.contains(sequence)) continue;
    CatalogEntry there;
    there.in_vain = static_cast<int>(one.count);
    choices.elsewhere[sequence] = why_passed_over(there);
  }
}

// Local. Notes the restore durably before the application continues, since a run that dies at once
// would otherwise leave no trace. How this run ends decides whether the restore was in vain.
void Restorer::note_restored(std::int64_t step) {
  auto* runs = job.options.restore.tries > 0 && rounds ? rounds->runs() : nullptr;
  const auto& history = store.history();
  if (!runs || history.head() <= 0) return;  // another program made it
  runs->restored({history.head(), step, history.last_number(), {}, slurm_start()});
  // Such marks have cleared the counts of these steps. From here on the ends of runs count again,
  // so the marks are taken back.
  std::vector<std::int64_t> good;
  for (const auto& entry : history.catalog()) {
    if (entry.mark == StepMark::good) good.push_back(entry.step);
  }
  for (const auto one : good) try {
      store.mark(one, std::nullopt);
    } catch (const Error& error) {  // the next restart removes the mark
      log(LogLevel::info, cat("the mark of step ", one, " stays: ", error.what()));
    }
}

std::optional<RestoreReport> Restorer::restore_latest(State& state, const RestoreOptions& options) {
  auto report = restore_newest(state, options);
  if (report) note_restored(report->step);
  return report;
}

namespace {

PassedOver passed_over(const RestoreChoices& choices, bool may_fall_back) {
  PassedOver passed;
  passed.sequences = choices.elsewhere;
  for (const auto& [sequence, step] : choices.whole) {
    // Without a reason, since choose() has reported it.
    passed.sequences[sequence];
    // Taking an older checkpoint from elsewhere would be a fall back, too.
    if (may_fall_back || choices.marked.contains(sequence)) passed.steps.insert(step);
  }
  return passed;
}

// Reports the checkpoints that were passed over, if they are newer than the one that was restored.
void add_skipped(const RestoreChoices& choices, RestoreReport& report, std::int64_t than) {
  std::vector<std::string> lines;
  for (const auto* all : {&choices.marked, &choices.in_vain}) {
    for (const auto& [sequence, line] : *all) {
      if (sequence > than) lines.push_back(line);
    }
  }
  report.skipped.insert(report.skipped.begin(), lines.begin(), lines.end());
}

// Tries a checkpoint that was passed over, since nothing else is left.
void take_after_all(const Job& job, RestoreChoices& choices, std::size_t i) {
  const auto step = choices.at(i);
  const auto is_its = [&](const auto& line) { return line.starts_with(line_of(step)); };
  std::erase_if(choices.passed, is_its);
  std::erase_if(choices.in_vain, [&](const auto& one) { return is_its(one.second); });
  if (job.root() && i < choices.steps.size() + choices.again.size()) {
    log(LogLevel::warning, cat("step ", step, " is tried again: nothing else can be restored"));
  }
}

// Names every checkpoint that was tried or passed over, with its reason.
Error nothing_left(const Job& job, const RestoreChoices& choices, const PassedOver& passed) {
  std::string reasons;
  const auto add = [&](const std::string& one) { reasons += (reasons.empty() ? "" : "; ") + one; };
  for (const auto& one : passed.why) add(one);
  for (const auto& [sequence, line] : choices.marked) add(line);
  for (const auto& one : choices.passed) add(one);
  return Error(Code::data_loss,
               cat("no checkpoint in ", job.directory.string(), " can be restored"), reasons,
               cat("cairn verify names all that is damaged; restore(step) takes a step that a "
                   "restore to an earlier one has superseded",
                   choices.marked.empty() ? "."
                                          : ", or that is marked bad; cairn mark takes the "
                                            "mark back."))
      .at(job.directory.string());
}

}  // namespace

// Tries the checkpoints from the newest on, those of the nodes and those of the directory, until
// one can be restored. Without fall backs only the first one is tried. Returns nothing if there is
// no checkpoint.
std::optional<RestoreReport> Restorer::restore_newest(State& state, const RestoreOptions& options) {
  auto choices = choose();
  const bool may_fall_back = job.options.restore.fall_back;
  Touched failed;
  auto passed = passed_over(choices, may_fall_back);
  const auto from_elsewhere = [&]() -> std::optional<RestoreReport> {
    if (!elsewhere) return std::nullopt;
    auto report = elsewhere->restore(state, options, std::nullopt, failed, passed);
    if (report) add_skipped(choices, *report, store.history().head());
    return report;
  };
  if (auto report = from_elsewhere()) return report;
  if (!may_fall_back && !choices.in_vain.empty()) {
    throw tried_in_vain(job, choices.in_vain.rbegin()->second);
  }
  if (choices.is_empty() && passed.why.empty()) return std::nullopt;
  // Evaluated in each round, since a reader may choose again.
  const auto may_try = [&] { return choices.passed.empty() || may_fall_back; };
  // A reader reads the directory again whenever the owner has replaced or removed what it was
  // reading, to find newer checkpoints. With too few tries it would end at a pinned checkpoint that
  // is much older.
  int looks = 64;
  for (std::size_t i = 0; may_try() && i < choices.count(); ++i) {
    const auto step = choices.at(i);
    if (i >= choices.steps.size()) take_after_all(job, choices, i);
    Touched touched;
    std::optional<RestoreReport> report;
    try {
      report = restore_step(step, state, options, touched, may_fall_back);
    } catch (const Error& error) {
      if (pass_over_thinned(step, error, choices)) continue;
      if (!is_damage(error)) throw;
      check_owner();
      failed.keys.merge(touched.keys);
      failed.savers.merge(touched.savers);
      if (looks-- > 0 && look_for_change(step) != Store::Change::none) {
        choices = choose();
        // The loop goes on with the first of the new choices.
        i = static_cast<std::size_t>(-1);
        continue;
      }
      remember_damage(step, error);
      choices.passed.push_back(cat(line_of(step), error.what()));
      if (!may_fall_back) throw;
      passed.steps.insert(step);
      // The nodes may have a checkpoint that is older than this one and newer than the next one
      // here.
      if (auto report = from_elsewhere()) {
        report->skipped.insert(report->skipped.begin(), choices.passed.begin(),
                               choices.passed.end());
        return report;
      }
      continue;
    }
    require_overwritten(job, failed, touched, *report);
    report->skipped = choices.passed;
    add_skipped(choices, *report, -1);
    report->skipped.insert(report->skipped.begin(), passed.why.begin(), passed.why.end());
    return report;
  }
  // Nothing else is left, so what only the nodes have is tried after all.
  std::erase_if(passed.sequences,
                [&](const auto& one) { return choices.elsewhere.contains(one.first); });
  if (may_fall_back && !choices.elsewhere.empty()) {
    if (auto report = from_elsewhere()) return report;
  }
  throw nothing_left(job, choices, passed);
}

// Passes over a step from which a rule has removed what the state wants, if fall backs are allowed.
bool Restorer::pass_over_thinned(std::int64_t step, const Error& error, RestoreChoices& choices) {
  const auto went = thinned(step, error);
  if (!went) return false;
  if (!job.options.restore.fall_back) throw Error(*went);
  if (job.root()) log(LogLevel::warning, cat("passed over: ", went->what()));
  choices.passed.push_back(cat(line_of(step), went->what()));
  return true;
}

// A step that was asked for is never replaced by another one. The nodes are tried first, since they
// are faster.
RestoreReport Restorer::restore(std::int64_t step, State& state, const RestoreOptions& options) {
  Touched failed;
  PassedOver passed;
  if (elsewhere) {
    if (auto report = elsewhere->restore(state, options, step, failed, passed)) return *report;
  }
  check_owner();  // after the nodes, which need no home that answers
  Touched touched;
  std::optional<RestoreReport> report;
  // The owner may replace the step again and again while this reader reads it.
  for (int looks = 64; !report; --looks) try {
      report = restore_step(step, state, options, touched, false);
    } catch (const Error& error) {
      if (const auto went = thinned(step, error)) throw Error(*went);
      if (error.code() == Code::not_found && !job.options.read_only) look_again();
      if (!is_damage(error)) throw;
      check_owner();
      const auto change = look_for_change(step);
      if (change == Store::Change::gone) throw Error(removed_meanwhile(step, error));
      // A step that its owner has just replaced is read again.
      if (looks == 0 || change == Store::Change::none) {
        if (error.code() != Code::not_found) remember_damage(step, error);
        throw;
      }
      failed.keys.merge(std::exchange(touched.keys, {}));
      failed.savers.merge(std::exchange(touched.savers, {}));
    }
  require_overwritten(job, failed, touched, *report);
  return *std::move(report);
}

}  // namespace cairn
