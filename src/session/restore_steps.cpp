#include "session/restore_steps.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/restore/left_over.hpp"
#include "session/restore/restore.hpp"
#include "session/save/measure.hpp"
#include "session/schedule/turns.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/format.hpp"

namespace cairn {
bool is_damage(const Error& error) {
  return error.code() == Code::data_loss || error.code() == Code::io ||
         (error.code() == Code::not_found && (error.tensor().empty() || !error.path().empty()));
}

void require_overwritten(const Job& job, const Touched& failed, const Touched& touched,
                         const RestoreReport& report) {
  together(*job.group, [&] {
    const auto refuse = [&](const std::string& what) {
      throw Error(Code::data_loss, cat(report.prefix, " has no ", what),
                  "a newer, damaged checkpoint had it, so that it now holds what was not proved",
                  "Restore into a fresh state, or set ManagerOptions::verify_first.")
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

// How a line about a step begins.
std::string line_of(std::int64_t step) { return cat("step ", step, ": "); }

// What a run that goes on from this sequence leaves behind, as far as the catalog knows it.
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
        cat("of ", report.prefix, " the state has not wanted: ", some_of(report.unused_keys),
            may_tell ? ". Add what was forgotten, or say that it is meant: unused = silent" : ""));
  }
  if (!report.kept_keys.empty()) {
    const bool were_named = !options.all_may_be_missing;
    log(were_named ? LogLevel::info : LogLevel::warning,
        cat(report.prefix,
            " has none of these, which stay as they are: ", some_of(report.kept_keys)));
  }
}

RestoreReport Restorer::restore_step(std::int64_t step, State& state, const RestoreOptions& options,
                                     Touched* touched) {
  std::optional<SharedIndex> index;
  RestoreReport report;
  const auto restore_from = [&](std::optional<Format> format) {
    index.emplace(share_index(job, job.prefix(step), format));
    report = restore_state(job, *index, state, options, {.touched = touched});
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
  if (elsewhere) elsewhere->went_back_to(contents.meta ? contents.meta->sequence : -1);
  if (job.root() && contents.meta) {
    ledger.went_back_to(*contents.meta, saved_after(store, contents.meta->sequence));
  }
  if (turns) turns->restored(step);
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

// Whether the checkpoint that a reader could not restore has been replaced or removed by its owner
// in the meantime.
bool Restorer::changed_meanwhile(std::int64_t step) {
  if (!job.options.read_only) return false;
  const auto message = from_root(
      *job.group, [&]() -> std::string { return store.changed_meanwhile(step) ? "changed" : ""; });
  return !message.empty();
}

// Where a restore has failed for want of a tensor that the step had once: what says so.
std::optional<Error> Restorer::thinned(std::int64_t step, const Error& error) {
  const bool wants = error.code() == Code::not_found || error.code() == Code::invalid_argument;
  if (!wants || error.tensor().empty()) return std::nullopt;
  struct Told {
    std::string keys;
    std::int64_t after = -1, newest = -1;
  };
  const auto message = from_root(*job.group, [&]() -> std::string {
    const auto* entry = store.history().find(step);
    const auto* went = entry ? entry->find_thinned(error.tensor()) : nullptr;
    if (!went) return "";
    Told told{went->keys, went->after};
    for (const auto* other : restorable(store.history().catalog())) {
      if (other->find_thinned(error.tensor())) continue;
      told.newest = other->step;
      break;
    }
    return pack(told);
  });
  if (message.empty()) return std::nullopt;
  const auto told = unpack<Told>(message);
  return Error(Code::not_found, cat("step ", step, " has no '", error.tensor(), "' any more"),
               told.after < 0
                   ? cat("cairn thin let '", told.keys, "' go")
                   : cat("thinned by the rule '", told.keys, "' after step ", told.after),
               told.newest < 0 ? "No step here has it. Leave it out of the state."
                               : cat("The newest step that has it is ", told.newest,
                                     ". Or leave it out of the state."))
      .at(job.prefix(step).string())
      .of_tensor(error.tensor());
}

// Throws where the directory as a whole is gone: then no step of it is there.
void Restorer::look_again() {
  from_root(*job.group, [&]() -> std::string {
    store.look_again();
    return "";
  });
}

// The steps to try, newest first, and what is passed over before the first of them.
RestoreChoices Restorer::choose() {
  const auto message = from_root(*job.group, [&] {
    store.look_again();
    return pack(store.history().choices());
  });
  auto choices = unpack<RestoreChoices>(message);
  for (const auto& one : choices.passed) {
    if (job.root()) log(LogLevel::warning, cat("passed over: ", one));
  }
  return choices;
}

std::optional<RestoreReport> Restorer::restore_latest(State& state, const RestoreOptions& options) {
  auto choices = choose();
  Touched failed;
  PassedOver passed;
  const auto from_elsewhere = [&]() -> std::optional<RestoreReport> {
    if (!elsewhere) return std::nullopt;
    return elsewhere->restore(state, options, std::nullopt, failed, passed);
  };
  if (auto report = from_elsewhere()) return report;
  if (choices.steps.empty() && choices.passed.empty() && passed.why.empty()) return std::nullopt;
  // Asked each time: a reader may choose again.
  const auto may_try = [&] { return choices.passed.empty() || job.options.fall_back; };
  // Of a reader, at a directory that its owner changes: each follows a checkpoint that was replaced
  // or removed while it was read, for newer ones. After too few it would take a pinned one that is
  // much older.
  int looks = 64;
  const auto count = [&] { return choices.steps.size() + choices.last.size(); };
  for (std::size_t i = 0; may_try() && i < count(); ++i) {
    const bool is_last = i >= choices.steps.size();
    const auto step = is_last ? choices.last[i - choices.steps.size()] : choices.steps[i];
    if (is_last) {  // it is not passed over, after all
      std::erase_if(choices.passed,
                    [&](const auto& one) { return one.starts_with(line_of(step)); });
    }
    Touched touched;
    std::optional<RestoreReport> report;
    try {
      report = restore_step(step, state, options, &touched);
    } catch (const Error& error) {
      if (const auto went = thinned(step, error)) {
        if (!job.options.fall_back) throw Error(*went);
        if (job.root()) log(LogLevel::warning, cat("passed over: ", went->what()));
        choices.passed.push_back(cat(line_of(step), went->what()));
        continue;
      }
      if (!is_damage(error)) throw;
      failed.keys.merge(touched.keys);
      failed.savers.merge(touched.savers);
      if (looks-- > 0 && changed_meanwhile(step)) {
        choices = choose();
        i = static_cast<std::size_t>(-1);
        continue;
      }
      remember_damage(step, error);
      choices.passed.push_back(cat(line_of(step), error.what()));
      if (!job.options.fall_back) throw;
      passed.steps.insert(step);
      // Elsewhere there may be what is older than that, and newer than what comes next here.
      if (auto report = from_elsewhere()) {
        report->skipped.insert(report->skipped.begin(), choices.passed.begin(),
                               choices.passed.end());
        return report;
      }
      continue;
    }
    require_overwritten(job, failed, touched, *report);
    report->skipped = choices.passed;
    report->skipped.insert(report->skipped.begin(), passed.why.begin(), passed.why.end());
    return report;
  }
  choices.passed.insert(choices.passed.begin(), passed.why.begin(), passed.why.end());
  std::string reasons;
  for (const auto& one : choices.passed) reasons += (reasons.empty() ? "" : "; ") + one;
  throw Error(Code::data_loss, cat("no checkpoint in ", job.directory.string(), " can be restored"),
              reasons,
              "cairn verify names all that is damaged; restore(step) takes a step that a "
              "restore to an earlier one has superseded.")
      .at(job.directory.string());
}

RestoreReport Restorer::restore(std::int64_t step, State& state, const RestoreOptions& options) {
  Touched failed;
  PassedOver passed;
  if (elsewhere) {
    if (auto report = elsewhere->restore(state, options, step, failed, passed)) return *report;
  }
  Touched touched;
  std::optional<RestoreReport> report;
  for (int looks = 64; !report; --looks) try {
      report = restore_step(step, state, options, &touched);
    } catch (const Error& error) {
      if (const auto went = thinned(step, error)) throw Error(*went);
      if (error.code() == Code::not_found) look_again();
      if (!is_damage(error) || error.code() == Code::not_found) throw;
      // What its owner has just replaced is read anew, and what it has removed is not there.
      if (looks == 0 || !changed_meanwhile(step)) {
        remember_damage(step, error);
        throw;
      }
      failed.keys.merge(std::exchange(touched.keys, {}));
      failed.savers.merge(std::exchange(touched.savers, {}));
    }
  require_overwritten(job, failed, touched, *report);
  return *std::move(report);
}

}  // namespace cairn
