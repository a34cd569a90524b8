// A save that goes on behind the application's back. What ranks do together (plan, exchange,
// verdicts) happens in the caller's calls; what a rank does alone (write, sync, record; publish, on
// rank 0) happens in its queue. A save in flight moves on when all ranks' tasks are done and a
// collective call finds that out:
//
//   save_async    capture, then in the queue: write, record                     writing
//   advance       verdict, merge; then in rank 0's queue: index, commit         publishing
//   advance       verdict; then in rank 0's queue: state file, retention        committed
//
// From the end of the first tasks on a restart completes the save without any of these calls.
#include <algorithm>

#include "base/text.hpp"
#include "base/unwinding.hpp"
#include "cairn/log.hpp"
#include "checkpoint/series.hpp"
#include "commit/recycled.hpp"
#include "directory/recovery.hpp"
#include "group/collectives.hpp"
#include "io/limited.hpp"

namespace cairn {
namespace {

// Passes on what may not be told as an Error.
std::optional<Error> error_of(const std::exception_ptr& failure) {
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    return error_in_flight();
  }
}

// Its caller is told that a task has ended; the flight may be gone after that.
void end_task(const Flight& flight) {
  const auto handle = flight.handle;
  handle->end_of_writing();
  handle->idle = true;
  handle->idle.notify_all();
}

}  // namespace

// Not collective: what is in flight stays so, for a restart to complete.
Series::~Series() {
  if (queue) queue->drain();
  if (!trace) return;
  try {
    write_trace();
  } catch (...) {
    try {
      log(LogLevel::warning, cat("the trace of rank ", job.rank(), " is not written"));
    } catch (...) {  // no more than a message is lost
    }
  }
}

void Series::begin_task(Flight& flight, void (Series::*task)(Flight&) const) {
  if (!queue) queue = job.options.async.queue ? job.options.async.queue : thread_queue();
  flight.task = task;
  flight.handle->idle = false;
  try {
    // No more than a std::function holds without an allocation.
    queue->run([this, &flight] {
      const io::Deadline deadline(job.options.storage_limit_seconds);
      try {
        (this->*flight.task)(flight);
      } catch (...) {
        flight.failure = std::current_exception();
      }
      end_task(flight);
    });
  } catch (...) {  // not taken: other ranks wait for this one's verdict
    flight.failure = std::current_exception();
    flight.held = {};
    end_task(flight);
  }
}

// Names what ranks have agreed on by numbers.
void Series::name(Flight& flight) const {
  auto& prepared = flight.prepared;
  prepared = prepared_of(flight.step, commit::uuid_text({flight.uuid_high, flight.uuid_low}),
                         flight.layout.data_files + 1, flight.sequence, flight.parent, flight.time);
  prepared.meta.metric = flight.metric;
  prepared.save.counts = &flight.counts;
  prepared.save.recycle = flight.recycled_bytes >= 0;
  {
    const std::lock_guard guard(flight.handle->mutex);
    flight.handle->prefix = prepared.save.prefix().string();
  }
  flight.begun = true;
}

// Makes way for a save for which nothing has been made yet.
void Series::join(Flight& flight) const {
  auto& prepared = flight.prepared;
  if (job.root()) {
    // Raised first, for what may follow: what is withdrawn must not be others' files.
    const auto count = prepared.save.num_files;
    commit::avoid_counts_in_use(*job.files, prepared.save);
    if (prepared.save.num_files != count) {
      throw Error(Code::already_exists,
                  cat("data files of step ", flight.step, " are in ", job.directory.string()),
                  "no checkpoint refers to them, and Cairn did not write them",
                  "Move them away, or save another step.")
          .at(prepared.save.prefix().string());
    }
    require_free(flight.step,
                 flight.layout.total_bytes - std::max<std::int64_t>(flight.recycled_bytes, 0));
    ownership->check();
  }
  if (job.root() || flight.layout.writer >= 0) commit::join(*job.files, prepared.save);
}

// This rank's bytes, then its record.
void Series::write_captured(Flight& flight) const {
  const Laps laps(flight.figures, trace.get(), Trace::Thread::writer, &StageSeconds::write);
  const auto held = std::move(flight.held);
  if (!flight.begun) {
    name(flight);
    join(flight);
  }
  const auto& [save, meta] = flight.prepared;
  const auto& plan = *flight.plan;
  auto entries = std::move(flight.entries);
  auto out = plan.capture.outgoing(flight.memory, plan.local.strings);
  write_files(*job.files, save, out, &flight.cancelled);
  std::move(out.entries.begin(), out.entries.end(), std::back_inserter(entries));
  if (!flight.runs.empty()) {
    auto runs = write_runs(*job.files, plan.dense, flight.runs, flight.layout.dense_file, save);
    std::move(runs.begin(), runs.end(), std::back_inserter(entries));
  }
  if (flight.cancelled) return;
  leave_record(job, save, meta, flight.layout, entries);
  flight.entries = std::move(entries);
  flight.handle->stage = SaveStage::written;
}

// Rank 0.
void Series::publish_flight(Flight& flight) const {
  const Laps laps(flight.figures, trace.get(), Trace::Thread::writer, &StageSeconds::commit);
  flight.index = publish(flight.prepared, flight.layout, std::move(flight.entries), flight.there);
}

// Rank 0. On a copy of the catalog: the caller's thread goes on with its own.
// What has committed without being durable takes nothing away. What is saved right now is left
// alone: without renames its files are under their final names already.
void Series::begin_tidying(const Prepared& prepared, int data_files, bool durable) {
  const auto sequence = prepared.meta.sequence;
  std::vector<std::int64_t> in_flight;
  for (const auto& flight : flights) {
    if (flight->step != prepared.save.step) in_flight.push_back(flight->step);
  }
  auto task = [this, sequence, save = prepared.save, data_files, durable, in_flight,
               entries = catalog]() mutable {
    SaveStatistics figures;
    figures.step = save.step;
    Laps laps(figures, trace.get(), Trace::Thread::writer, &StageSeconds::tidy);
    std::vector<std::int64_t> before, after;
    std::int64_t kept = -1;
    try {
      tell_state_file(save.step, entries);
      if (!durable) return;
      std::erase_if(entries, [&](const auto& entry) {
        return std::find(in_flight.begin(), in_flight.end(), entry.step) != in_flight.end();
      });
      for (const auto& entry : entries) before.push_back(entry.step);
      tidy(save, entries);
      if (job.recycles()) {
        kept = commit::trim_recycled(*job.files, job.directory, job.naming, data_files);
      }
    } catch (const Error& error) {
      log(LogLevel::warning, cat("while data files are kept for the next save: ", error.what()));
    } catch (...) {  // the end of a job that is played in a test: its ranks see it elsewhere
      return;
    }
    laps.end();
    ledger.tidied(sequence, figures.seconds.tidy);
    for (const auto& entry : entries) after.push_back(entry.step);
    const std::lock_guard guard(tidied_mutex);
    recycled_bytes = kept;
    for (const auto step : before) {
      if (std::find(after.begin(), after.end(), step) == after.end()) tidied.push_back(step);
    }
  };
  try {
    queue->run(std::move(task));
  } catch (const std::exception& error) {  // the next save tidies
    log(LogLevel::warning,
        cat("older checkpoints stay after step ", prepared.save.step, ": ", error.what()));
    const std::lock_guard guard(tidied_mutex);
    recycled_bytes = -1;
  }
}

void Series::apply_tidied() {
  const std::lock_guard guard(tidied_mutex);
  for (const auto step : tidied) {
    std::erase_if(catalog, [&](const auto& entry) { return entry.step == step; });
  }
  tidied.clear();
}

// The stage, for the application.
void Series::change(Flight& flight, SaveStage stage) const {
  flight.handle->stage = stage;
  tell(SaveHandle(flight.handle));
}

void Series::tell(const SaveHandle& handle) const {
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

// Collective. What failed earlier must not cost the last save before a stop: its handle and the log
// have told of it.
void Series::clear_way_for_last_save() {
  if (!turns->stop()) return;
  settle();  // nor is the last one to be skipped
  if (earlier_failure && job.root()) {
    log(LogLevel::warning,
        "the failure of an earlier save is not thrown: the job stops, and saves");
  }
  earlier_failure.reset();
}

void Series::throw_earlier_failure() {
  if (!earlier_failure) return;
  const auto error = *std::exchange(earlier_failure, std::nullopt);
  throw error;
}

// Moves saves in flight on as far as all ranks' tasks are done; or waits for these.
void Series::advance(bool wait) {
  while (!flights.empty()) {
    auto& flight = *flights.front();
    if (wait) flight.handle->idle.wait(false);
    std::int64_t busy = !flight.handle->idle;
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
      {
        const std::lock_guard guard(flight.handle->mutex);
        flight.handle->error = *failed;
      }
      change(flight, SaveStage::failed);
      if (job.root()) {
        log(LogLevel::error,
            cat("the asynchronous save of step ", flight.step, " failed: ", failed->what()));
      }
      ledger.failed();
      if (turns) turns->failed(flight.step);
      if (job.options.async.throw_failures && !earlier_failure) earlier_failure = *failed;
      cached.reset();  // the long way looks at more
    }
    if (failed || flight.handle->stage == SaveStage::committed) {
      landed.push_back(std::move(flights.front()));
      flights.erase(flights.begin());
    }
  }
  if (wait && queue) queue->drain();
  apply_tidied();
}

void Series::settle() { advance(true); }

// All ranks' tasks are done: the verdict on them, and what comes next.
void Series::land(Flight& flight) {
  Group& group = *job.group;
  const auto& prepared = flight.prepared;
  auto mine = error_of(std::exchange(flight.failure, nullptr));
  if (!flight.begun) try {
      name(flight);
    } catch (...) {
      mine = error_in_flight();
    }
  if (flight.stage == Flight::Stage::writing) {
    std::vector<StoredTensor> tensors;
    try {
      agree(group, mine);
      flight.figures.bytes = bytes_of(flight.entries);
      flight.figures.recycled_files = flight.counts.recycled;
      const Laps laps(flight.figures, trace.get(), Trace::Thread::caller, &StageSeconds::merge);
      tensors = merge_entries(group, std::move(flight.entries), &flight.figures);
    } catch (const Error& error) {
      give_up(error, prepared.save, false);
    }
    flight.stage = Flight::Stage::publishing;
    if (!job.root()) return;
    flight.there = copy_of(flight.step);
    flight.prepared.meta.parent = head;  // the one before may have failed
    flight.entries = std::move(tensors);
    flight.figures.files = flight.layout.data_files;
    flight.figures.total_seconds = seconds_since(flight.called);
    flight.prepared.meta.statistics = flight.figures;
    begin_task(flight, &Series::publish_flight);
    return;
  }
  const bool volatile_commit = mine && mine->code() == Code::durability_unknown;
  if (job.root() && (!mine || volatile_commit)) {
    apply_tidied();
    after_commit(prepared, volatile_commit, flight.index);
    // The file of dense tensors is never a recycled one: it is the last.
    const auto& layout = flight.layout;
    begin_tidying(prepared, layout.dense_file < 0 ? layout.data_files : layout.dense_file,
                  !volatile_commit);
  }
  try {
    agree(group, mine);
  } catch (const Error& error) {
    give_up(error, prepared.save, volatile_commit);
  }
  flight.figures.total_seconds = seconds_since(flight.called);
  enter(prepared.meta.sequence, flight.figures);
  change(flight, SaveStage::committed);
}

}  // namespace cairn
