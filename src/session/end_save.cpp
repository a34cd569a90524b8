// The stages of a save after its bytes (save.cpp): verdict, merge, commit, tidy; and how a save
// that the application does not wait for comes to them:
//
//   advance   all ranks' records are there: verdict, merge; then in rank 0's queue: commit
//   advance   the index is there: verdict; then in rank 0's queue: tidy
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
#include "session/save/key_turns.hpp"
#include "session/save/writers/writer.hpp"
#include "session/schedule/turns.hpp"
#include "store/commit/names.hpp"
#include "store/directory/retention.hpp"

namespace cairn {

std::optional<Error> error_of(const std::exception_ptr& failure) {
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    return error_in_flight();
  }
}

namespace {

// A staging directory has a name that looks like that of another step (names.hpp), so an error that
// has its path also gets the step that was saved.
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

// Collective. What any rank has found, on rank 0.
void gather_not_finite(const Job& job, Flight& flight) {
  auto& notes = flight.result.notes;
  if (!notes.looks) return;
  const auto all = reduce_to_root(*job.group, pack(notes.not_finite), [](auto low, auto high) {
    auto both = unpack<NotFiniteKeys>(low);
    both.merge(unpack<NotFiniteKeys>(high));
    return pack(both);
  });
  if (job.root()) notes.not_finite = unpack<NotFiniteKeys>(all);
}

// A tensor that has become not finite stays noted until it is finite again, since a step that
// follows a poisoned one is poisoned, too. Without a note of the step before nothing is known.
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

// The entries of all ranks, on rank 0.
void Landing::merge(Flight& flight) {
  auto& figures = flight.figures;
  figures.bytes = bytes_of(flight.result.entries) - flight.result.frozen.shared_bytes;
  figures.recycled_files = flight.result.notes.recycled_files;
  gather_not_finite(job, flight);
  figures.peak_resident_bytes = peak_resident_bytes();
  flight.result.joined = save_format_of(job).merge(*job.group, std::move(flight.result.entries),
                                                   *flight.plan, figures);
  flight.result.merged = true;
}

// Each rank gives their final names to the data files that it alone has written. So rank 0's work
// does not grow with the number of ranks.
void Landing::name_data(Flight& flight, const Job& as_written) {
  auto& draft = flight.prepared->draft;
  if (!draft.names_data() || writer_of(as_written).writes_together()) return;
  together(*job.group, [&] { draft.name(flight.result.data_files); });
  // Behind these are the files of dense tensors and of savers, which several ranks write.
  draft.was_named(flight.plan->layout.shard_files);
}

// Rank 0. Completes metadata and figures from the directory and the clock, just before the commit.
void Landing::make_ready(Flight& flight) const {
  auto& figures = flight.figures;
  const auto& notes = flight.result.notes;
  flight.result.replaced = store.history().copy_of(flight.asked.step);
  figures.files = flight.layout.data_files;
  figures.total_seconds = seconds_since(flight.asked.at);
  auto& meta = flight.prepared->meta;
  if (flight.asked.background) {
    // The pending save before this one may have failed since, so the parent is asked for now.
    if (!flight.asked.is_flush) meta.parent = store.history().parent_here();
  } else {
    figures.blocked_seconds = figures.total_seconds;
  }
  if (notes.looks) {
    const auto* before = store.history().find_sequence(meta.parent);
    meta.not_finite = after(before ? before->not_finite : std::nullopt, notes.not_finite);
  }
  meta.statistics = figures;
  meta.run = {ledger.before(), text_of(job.options.keep)};
}

// The verdict on the commit. What follows on rank 0 (tidy) is up to the caller of a blocking save,
// and begins here otherwise.
void Landing::finish(Flight& flight) {
  const auto& prepared = *flight.prepared;
  auto mine = error_of(std::exchange(flight.failure, nullptr));
  const bool volatile_commit = mine && mine->code() == Code::durability_unknown;
  const bool counts = job.root() && (!mine || volatile_commit);
  if (counts) try {
      store.history().apply_tidied();
      store.committed(prepared, volatile_commit, flight.result.index, !flight.asked.is_flush);
      if (turns && !volatile_commit && !flight.asked.is_flush) turns->committed();
      if (flight.asked.pins) pin_flushed(prepared.draft.step());
      if (flight.asked.background) {
        tidy_in_background(flight, !volatile_commit);
      } else {
        store.tell(prepared.draft);
      }
    } catch (...) {
      const auto error = error_in_flight();
      if (!mine) mine = error;
    }
  try {
    agree(*job.group, mine);
  } catch (const Error& error) {
    store.tidy(nullptr);
    give_up(error, &prepared.draft, counts);  // what is committed is never withdrawn
  }
}

// All ranks' tasks are done: the verdict on them, and what comes next.
void Landing::land(Flight& flight) {
  if (flight.result.merged) {
    finish(flight);
    flight.figures.total_seconds = seconds_since(flight.asked.at);
    enter(flight);
    return change(flight, SaveStage::committed);
  }
  land_bytes(flight, job);
  if (job.root()) writing_.work_in_background(flight);
}

void Landing::land_bytes(Flight& flight, const Job& as_written) {
  auto mine = error_of(std::exchange(flight.failure, nullptr));
  if (!flight.prepared) try {
      writing_.take_name(flight);
    } catch (...) {
      mine = error_in_flight();
    }
  // If the directory is another owner's now, no rank touches it, not even to name its data.
  if (!mine) try {
      store.check_owner();
    } catch (...) {
      mine = error_in_flight();
    }
  try {
    agree(*job.group, mine);
    const Laps laps(flight.figures, trace.get(), Trace::Thread::caller, &StageSeconds::merge);
    merge(flight);
    name_data(flight, as_written);
  } catch (const Error& error) {
    give_up(error, flight.prepared ? &flight.prepared->draft : nullptr, false);
  }
  if (!job.root()) return;
  try {
    make_ready(flight);
  } catch (...) {
    flight.failure = std::current_exception();
  }
}

void Landing::advance(bool wait) {
  while (!flights.empty()) {
    auto& flight = flights.first();
    if (wait) flight.handle->idle.wait(false);
    std::int64_t busy = flights.is_busy();
    calls().meet({&busy, 1});
    if (busy > 0) return;
    std::optional<Error> failed;
    try {
      land(flight);
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      failed = error;
    }
    if (failed) {
      failed = room_.make_room_for_next(*failed, flight.asked.step);
      flight.handle->fail(*failed);
      change(flight, SaveStage::failed);
      if (job.root()) {
        store.save_failed(flight.asked.step, *failed);
        log(LogLevel::error,
            cat("the asynchronous save of step ", flight.asked.step, " failed: ", failed->what()));
      }
      ledger.failed();
      if (turns) turns->failed(flight.asked.step);
      if (job.options.async.throw_failures) flights.remember(flight.asked.step, *failed);
      plans.forget();  // the long way looks at more
      key_turns.begin_anew();
    }
    if (failed || flight.handle->stage == SaveStage::committed) flights.retire_first();
  }
  if (wait) flights.drain();
  store.history().apply_tidied();
}

// Rank 0.
void Landing::tidy_in_background(const Flight& flight, bool durable) {
  const auto& draft = flight.prepared->draft;
  // The file of dense tensors is never a recycled one: it is the last.
  const auto& layout = flight.layout;
  const auto data_files = layout.dense_file < 0 ? layout.data_files : layout.dense_file;
  auto tidies =
      store.tidy_later(draft, data_files, durable,
                       {flights.steps_but(draft.step()), flights.any_takes_waiting(draft.step())});
  auto task = [this, sequence = flight.prepared->meta.sequence, step = draft.step(),
               tidies = std::move(tidies)] {
    SaveStatistics figures;
    figures.step = step;
    Laps laps(figures, trace.get(), Trace::Thread::writer, &StageSeconds::tidy);
    try {
      if (!tidies()) return;
    } catch (...) {  // the end of a job that is played in a test: its ranks see it elsewhere
      return;
    }
    laps.end();
    ledger.tidied(sequence, figures.seconds.tidy);
  };
  try {
    flights.later(std::move(task));
  } catch (const std::exception& error) {  // the next save tidies
    log(LogLevel::warning,
        cat("older checkpoints stay after step ", draft.step(), ": ", error.what()));
  }
}

// After all ranks have failed alike. `draft` is null if there was no memory even for the save's
// name: then rank 0 does not know what to remove.
Store::Withdrawn Landing::withdraw(const Draft* draft, bool committed, bool failed) {
  auto done = static_cast<std::int64_t>(Store::Withdrawn::gone);
  if (job.root() && !committed) {
    flights.drain();  // others are in the same directory
    done = static_cast<std::int64_t>(Store::Withdrawn::stays);
    if (draft) done = static_cast<std::int64_t>(store.withdraw(*draft));
    if (failed) store.spoil(flights.is_alone(draft));
  }
  job.group->all_reduce({&done, 1}, Group::Op::max);
  return static_cast<Store::Withdrawn>(done);
}

// Throws the error of a save that failed, when as much of it is removed as can be.
void Landing::give_up(const Error& given, const Draft* draft, bool committed) {
  const auto error = with_step(given, draft);
  if (error.code() == Code::communication || error.code() == Code::durability_unknown) {
    throw Error(error);
  }
  const auto withdrawn = withdraw(draft, committed);
  const bool is_removed =  // the directory, and so the save
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

// Before retention, which might remove it. A failure is logged; who asked for the pin throws it.
void Landing::pin_flushed(std::int64_t step) {
  try {
    store.pin(step);
  } catch (const Error& error) {
    log(LogLevel::warning, error.what());
  }
}

void Landing::enter(Flight& flight) {
  const auto& meta = flight.prepared->meta;
  auto at = flight.asked.at;
  const bool is_flush = flight.asked.is_flush;
  if (is_flush) {  // no step of the run, and as old as it is
    const auto age = now_seconds() - seconds_since(at) - meta.wall_time_seconds;
    at -= std::chrono::duration_cast<SaveTime::duration>(
        std::chrono::duration<double>(std::max(0.0, age)));
  }
  if (elsewhere) elsewhere->committed(meta, is_flush);
  if (freezes(job)) frozen.committed(meta.sequence, std::move(flight.result.frozen));
  ledger.committed(meta, flight.figures, at);
  if (job.root()) log(LogLevel::info, line_of(flight.figures));
}

// When the manager ends, ranks can no longer agree. Each knows its own part only, so each reports
// what failed on it.
void Landing::tell_unfinished(Flight& flight, LogLevel level, const char* what) const noexcept try {
  if (flight.handle->process != ::getpid() || flight.cancelled) return;
  const auto save = cat(what, " of step ", flight.asked.step);
  if (const auto failure = error_of(std::exchange(flight.failure, nullptr))) {
    const auto error = with_way_out(*failure,
                                    "Until another save commits, a restart may still "
                                    "complete it.");
    log(level, cat(save, " failed on rank ", job.rank(),
                   " when no call was left to throw it: ", error.what()));
    flight.handle->fail(error);
    flight.handle->stage = SaveStage::failed;
  } else if (job.root() && !flight.result.merged) {
    log(level, cat(save, " is not committed: the manager ended before that, without wait(). The ",
                   "next manager that saves in ", job.directory.string(),
                   " completes it, if the bytes of all ranks were written."));
  }
} catch (...) {  // no more than messages are lost
}

// The stage, for the application.
void Landing::change(Flight& flight, SaveStage stage) const {
  flight.handle->stage = stage;
  tell(SaveHandle(flight.handle));
}

void Landing::tell(const SaveHandle& handle) const {
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
