// The stages of a save after its bytes (save.cpp): agree, merge, commit, tidy. An asynchronous save
// goes through them in two calls of advance:
//
//   all ranks' records are there: agree, merge; then in rank 0's queue: commit
//   the index is there: agree; then in rank 0's queue: tidy
#include "session/save_stages.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/process_memory.hpp"
#include "base/text.hpp"
#include "base/unwinding.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/elsewhere.hpp"
#include "session/save/formats/save_format.hpp"
#include "session/save/key_schedule.hpp"
#include "session/save/writers/writer.hpp"
#include "session/schedule/question_rounds.hpp"
#include "store/commit/names.hpp"
#include "store/directory/retention.hpp"

namespace cairn {

std::optional<Error> error_of(const std::exception_ptr& failure) {
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    return current_error();
  }
}

namespace {

// The name of a staging directory looks like that of another step (names.hpp). So an error with its
// path also gets the step that was saved.
Error with_step(const Error& error, const Draft* draft) {
  const auto staging = cat('-', commit::staging_step, "_temp_");
  if (!draft || std::string_view(error.what()).find(staging) == std::string_view::npos) {
    return error;
  }
  return Error(error.code(), cat(error.problem(), ", of step ", draft->step()), error.reason(),
               error.way_out())
      .at(error.path())
      .of_tensor(error.tensor())
      .on_rank(error.rank());
}

// Collective. Rank 0 receives the keys of tensors with values that are not finite.
void gather_not_finite(const Job& job, PendingSave& pending) {
  auto& notes = pending.result.notes;
  if (!notes.looks) return;
  const auto all = reduce_to_root(*job.group, pack(notes.not_finite), [](auto low, auto high) {
    auto both = unpack<NotFiniteKeys>(low);
    both.merge(unpack<NotFiniteKeys>(high));
    return pack(both);
  });
  if (job.root()) notes.not_finite = unpack<NotFiniteKeys>(all);
}

// Collective. Rank 0 receives what the commit needs of files that ranks have written in parts.
void gather_parts(const Job& job, PendingSave& pending) {
  if (pending.plan->dense.files_in_parts(0).empty()) return;
  auto& draft = pending.prepared->draft;
  const auto all =
      reduce_to_root(*job.group, draft.tell(), [](auto low, auto high) { return low + high; });
  if (job.root()) draft.hear(all);
}

// A tensor that has become not finite stays noted until it is finite again, since its next steps
// are poisoned, too. If the step before has no note, nothing is known.
NotFinite after(const std::optional<NotFinite>& before, const NotFiniteKeys& now) {
  NotFinite noted;
  for (const auto& key : now) {
    noted.keys.push_back(key);
    if (!before) continue;
    const auto has = [&](const auto& keys) {
      return std::binary_search(keys.begin(), keys.end(), key);
    };
    if (!has(before->keys) || has(before->turned)) noted.turned.push_back(key);
  }
  return noted;
}

}  // namespace

// Collective. Rank 0 receives the entries of all ranks.
void Completion::merge(PendingSave& pending) {
  auto& figures = pending.figures;
  const auto& notes = pending.result.notes;
  figures.bytes = pending.result.entries.stored_bytes() - pending.result.frozen.shared_bytes -
                  notes.unchanged_bytes;
  figures.unchanged_bytes = notes.unchanged_bytes;
  figures.recycled_files = notes.recycled_files;
  pending.result.sums = plans.sums_of(pending.result.entries, *pending.plan);
  gather_not_finite(job, pending);
  gather_parts(job, pending);
  figures.peak_resident_bytes = peak_resident_bytes();
  pending.result.joined = save_format_of(job).merge(*job.group, std::move(pending.result.entries),
                                                    *pending.plan, figures);
  pending.result.merged = true;
}

// Each rank gives the final names to the data files that it alone has written, so that rank 0's
// work does not grow with the number of ranks.
void Completion::name_data(PendingSave& pending, const Job& as_written) {
  auto& draft = pending.prepared->draft;
  if (!draft.names_data() || writer_of(as_written).writes_together()) return;
  run_and_agree(*job.group, [&] { draft.name(pending.result.data_files); });
  // The files of dense tensors and of savers follow these; several ranks write them.
  draft.was_named(pending.plan->layout.shard_files);
}

// Rank 0. Completes metadata and figures from the directory and the clock, just before the commit.
void Completion::make_ready(PendingSave& pending) const {
  auto& figures = pending.figures;
  const auto& notes = pending.result.notes;
  // A copy, since the writing thread may commit, and the catalog belongs to the caller's thread.
  pending.result.replaced = store.history().copy_of(pending.asked.step);
  figures.files = pending.layout.data_files;
  figures.total_seconds = seconds_since(pending.asked.at);
  auto& meta = pending.prepared->meta;
  if (pending.asked.background) {
    // The save before this one may have failed meanwhile, so the parent is only known now.
    if (!pending.asked.is_flush) meta.parent = store.history().parent_here();
  } else {
    figures.blocked_seconds = figures.total_seconds;
  }
  if (notes.looks) {
    const auto* before = store.history().find_sequence(meta.parent);
    meta.not_finite = after(before ? before->not_finite : std::nullopt, notes.not_finite);
  }
  meta.statistics = figures;
  meta.run = {save_log.before(), text_of(job.options.keep)};
}

// All ranks agree on whether the commit succeeded. Then rank 0 tidies: in the caller for a blocking
// save, otherwise in a task that begins here.
void Completion::finish(PendingSave& pending) {
  const auto& prepared = *pending.prepared;
  auto mine = error_of(std::exchange(pending.failure, nullptr));
  // The index may have its name although a later sync failed. Such a checkpoint counts, and must
  // not be withdrawn.
  const bool volatile_commit = mine && mine->code() == Code::durability_unknown;
  const bool counts = job.root() && (!mine || volatile_commit);
  if (counts) try {
      // What an earlier tidying has removed leaves the catalog before retention looks at it again.
      store.history().apply_tidied();
      store.committed(prepared, volatile_commit, pending.result.index, !pending.asked.is_flush);
      if (rounds && !volatile_commit && !pending.asked.is_flush) rounds->committed();
      if (pending.asked.pins) pin_flushed(prepared.draft.step());
      if (pending.asked.background) {
        tidy_in_background(pending, !volatile_commit);
      } else {
        store.tell(prepared.draft);
      }
    } catch (...) {
      const auto error = current_error();
      if (!mine) mine = error;
    }
  try {
    agree(*job.group, mine);
  } catch (const Error& error) {
    // Ends what tell() has begun, and removes nothing.
    store.tidy(nullptr);
    give_up(error, &prepared.draft, counts);  // a committed save is never withdrawn
  }
}

// The tasks of all ranks are done: ranks agree on success, and the next stage begins.
void Completion::complete(PendingSave& pending) {
  if (pending.result.merged) {
    finish(pending);
    pending.figures.total_seconds = seconds_since(pending.asked.at);
    enter(pending);
    return change(pending, SaveStage::committed);
  }
  complete_bytes(pending, job);
  if (job.root()) writing_.work_in_background(pending);
}

// Ranks agree on two things, one after the other: that all have written, and that merge and final
// names have succeeded. Only then rank 0 may commit.
void Completion::complete_bytes(PendingSave& pending, const Job& as_written) {
  auto mine = error_of(std::exchange(pending.failure, nullptr));
  const auto held = pending.handle->window.held_seconds();
  save_log.held(held);
  // A save that began with an id gets its draft on the writing thread. If it failed before that,
  // the draft is made here, since withdraw() needs it.
  if (!pending.prepared) try {
      writing_.take_name(pending);
    } catch (...) {
      mine = current_error();
    }
  // If another process owns the directory now, no rank changes it, not even to name its data files.
  if (!mine) try {
      store.check_owner();
    } catch (...) {
      mine = current_error();
    }
  try {
    agree(*job.group, mine);
    const StageTimer timer(pending.figures, trace.get(), Trace::Thread::caller,
                           &StageSeconds::merge);
    pending.figures.blocked_seconds += held;
    merge(pending);
    name_data(pending, as_written);
  } catch (const Error& error) {
    give_up(error, pending.prepared ? &pending.prepared->draft : nullptr, false);
  }
  if (!job.root()) return;
  try {
    make_ready(pending);
  } catch (...) {
    // Kept until ranks agree in finish(): the other ranks are already past the last agreement.
    pending.failure = std::current_exception();
  }
}

// Each round moves the first pending save one stage on, or returns if any rank's task still runs on
// it. So a save whose tasks are done passes through all its stages in one call.
void Completion::advance(bool wait) {
  while (!pending_saves.empty()) {
    auto& pending = pending_saves.first();
    if (wait) pending.handle->idle.wait(false);
    // One sum is the entry check of the call, and tells whether any rank's task is still running.
    std::int64_t busy = pending_saves.is_busy();
    calls().check_entry({&busy, 1});
    if (busy > 0) return;
    std::optional<Error> failed;
    try {
      complete(pending);
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      failed = error;
    }
    if (failed) {
      // The copy is lost with this save, so the room serves the next one.
      failed = room_.make_room_for_next(*failed, pending.asked.step);
      pending.handle->fail(*failed);
      change(pending, SaveStage::failed);
      if (job.root()) {
        store.save_failed(pending.asked.step, *failed);
        log(LogLevel::error,
            cat("the asynchronous save of step ", pending.asked.step, " failed: ", failed->what()));
      }
      save_log.failed();
      if (rounds) rounds->failed(pending.asked.step);
      if (job.options.async.throw_failures) pending_saves.remember(pending.asked.step, *failed);
      plans.forget();  // the next save is planned anew
      key_schedule.begin_anew();
    }
    // Otherwise it is merged and not committed: the next round asks for rank 0's commit.
    if (failed || pending.handle->stage == SaveStage::committed) pending_saves.retire_first();
  }
  if (wait) pending_saves.drain();
  store.history().apply_tidied();
}

// Rank 0. Tidies in a task, after the commit.
void Completion::tidy_in_background(const PendingSave& pending, bool durable) {
  const auto& draft = pending.prepared->draft;
  // The files of dense tensors are the last ones, and are never recycled.
  const auto& layout = pending.layout;
  const auto data_files = layout.dense_file < 0 ? layout.data_files : layout.dense_file;
  auto tidies = store.tidy_later(
      draft, data_files, durable,
      {pending_saves.steps_but(draft.step()), pending_saves.any_takes_waiting(draft.step())});
  auto task = [this, sequence = pending.prepared->meta.sequence, step = draft.step(),
               tidies = std::move(tidies)] {
    SaveStatistics figures;
    figures.step = step;
    StageTimer timer(figures, trace.get(), Trace::Thread::writer, &StageSeconds::tidy);
    try {
      if (!tidies()) return;
    } catch (...) {  // a simulated end of the job in a test; its ranks see it elsewhere
      return;
    }
    timer.end();
    save_log.tidied(sequence, figures.seconds.tidy);
  };
  try {
    pending_saves.later(std::move(task));
  } catch (const std::exception& error) {  // the next save tidies
    log(LogLevel::warning,
        cat("older checkpoints stay after step ", draft.step(), ": ", error.what()));
  }
}

// To be called after all ranks have failed alike. `draft` is null if memory was lacking even for
// the save's name. Then rank 0 does not know what to remove.
Store::Withdrawn Completion::withdraw(const Draft* draft, bool committed, bool failed) {
  auto done = static_cast<std::int64_t>(Store::Withdrawn::gone);
  if (job.root() && !committed) {
    pending_saves.drain();  // other tasks work in the same directory
    done = static_cast<std::int64_t>(Store::Withdrawn::stays);
    if (draft) done = static_cast<std::int64_t>(store.withdraw(*draft));
    if (failed) store.spoil(pending_saves.is_alone(draft));
  }
  job.group->all_reduce({&done, 1}, Group::Op::max);
  return static_cast<Store::Withdrawn>(done);
}

// Throws the error of a failed save, after removing as much of the save as possible.
void Completion::give_up(const Error& given, const Draft* draft, bool committed) {
  const auto error = with_step(given, draft);
  // After a failed message ranks cannot agree on the removal. If the durability is unknown, the
  // checkpoint may count and has to stay.
  if (error.code() == Code::communication || error.code() == Code::durability_unknown) {
    throw Error(error);
  }
  const auto withdrawn = withdraw(draft, committed);
  const bool is_removed =  // the directory is gone, and so is the save
      withdrawn == Store::Withdrawn::not_ours && error.code() == Code::not_found;
  if (withdrawn == Store::Withdrawn::gone || error.code() == Code::busy || is_removed) {
    throw Error(error);
  }
  if (withdrawn == Store::Withdrawn::not_ours) {
    throw Error(
        Code::busy, "the checkpoint directory is no longer owned by this job", error.what(),
        "This job commits and removes nothing here any more; whether its last save counts is "
        "for the present owner to say (cairn ls). Let one job at a time save here.")
        .at(job.directory.string());
  }
  throw Error(error.code(), error.problem(), error.reason(),
              cat(error.way_out(), error.way_out().empty() ? "" : " ",
                  "The failed save could not be removed either: until another save commits, a "
                  "restart may still complete it."))
      .at(error.path())
      .of_tensor(error.tensor())
      .on_rank(error.rank());
}

// Called before retention, which might remove the step. A failure is logged; the call that asked
// for the pin throws it.
void Completion::pin_flushed(std::int64_t step) {
  try {
    store.pin(step);
  } catch (const Error& error) {
    log(LogLevel::warning, error.what());
  }
}

void Completion::enter(PendingSave& pending) {
  const auto& meta = pending.prepared->meta;
  auto at = pending.asked.at;
  const bool is_flush = pending.asked.is_flush;
  if (is_flush) {  // it is not a step of this run, and as old as its save
    const auto age = now_seconds() - seconds_since(at) - meta.wall_time_seconds;
    at -= std::chrono::duration_cast<SaveTime::duration>(
        std::chrono::duration<double>(std::max(0.0, age)));
  }
  if (elsewhere) elsewhere->committed(meta, is_flush);
  pending.prepared->draft.committed();
  if (freezes(job)) frozen.committed(meta.sequence, std::move(pending.result.frozen));
  plans.committed(pending.result.sums);
  save_log.committed(meta, pending.figures, at);
  if (job.root()) log(LogLevel::info, line_of(pending.figures));
}

// When the manager ends, ranks can no longer agree. Each knows only its own part, so each reports
// what failed on it.
void Completion::tell_unfinished(PendingSave& pending, LogLevel level,
                                 const char* what) const noexcept try {
  // In a forked child the save is the parent's. A cancelled save was given up on purpose.
  if (pending.handle->process != ::getpid() || pending.cancelled) return;
  const auto save = cat(what, " of step ", pending.asked.step);
  if (const auto failure = error_of(std::exchange(pending.failure, nullptr))) {
    const auto error = with_way_out(*failure,
                                    "Until another save commits, a restart may still "
                                    "complete it.");
    log(level, cat(save, " failed on rank ", job.rank(),
                   " when no call was left to throw it: ", error.what()));
    pending.handle->fail(error);
    pending.handle->stage = SaveStage::failed;
  } else if (job.root() && !pending.result.merged) {
    const auto& prepared = pending.prepared;
    log(level, cat(save, " is not committed: the manager ended before that, without wait()",
                   prepared ? cat(". The next manager that saves in ", job.directory.string(), ' ',
                                  prepared->draft.files().left_behind(), '.')
                            : "."));
  }
} catch (...) {  // only messages are lost
}

// Tells the application the stage.
void Completion::change(PendingSave& pending, SaveStage stage) const {
  pending.handle->stage = stage;
  tell(SaveHandle(pending.handle));
}

void Completion::tell(const SaveHandle& handle) const {
  if (!job.options.async.on_change) return;
  try {
    job.options.async.on_change(handle);
  } catch (const Unwinding&) {
    throw;
  } catch (const std::exception& error) {
    log(LogLevel::warning, cat("AsyncOptions::on_change threw: ", error.what()));
  } catch (...) {
    log(LogLevel::warning, "AsyncOptions::on_change threw something that is no std::exception");
  }
}

}  // namespace cairn
