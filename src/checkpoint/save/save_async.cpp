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
#include "cairn/log.hpp"
#include "checkpoint/directory/recovery.hpp"
#include "checkpoint/objects.hpp"
#include "checkpoint/resolve.hpp"
#include "checkpoint/save/capture.hpp"
#include "checkpoint/save/savers.hpp"
#include "checkpoint/series.hpp"
#include "group/collectives.hpp"

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

SaveHandle done_handle(std::int64_t step, std::string prefix, SaveStage stage,
                       std::string because = "") {
  auto shared = std::make_shared<SaveHandle::Shared>(step);
  shared->prefix = std::move(prefix);
  shared->blocked_because = std::move(because);
  shared->stage = stage;
  shared->end_of_writing();
  return SaveHandle(std::move(shared));
}

}  // namespace

std::int64_t SaveHandle::step() const { return shared_->step; }
SaveStage SaveHandle::stage() const { return shared_->stage; }
void SaveHandle::wait_written() const { shared_->rank_is_done.wait(false); }
std::optional<Error> SaveHandle::error() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->error;
}
std::string SaveHandle::prefix() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->prefix;
}
std::string SaveHandle::blocked_because() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->blocked_because;
}

// Not collective: what is in flight stays so, for a restart to complete.
Series::~Series() {
  if (queue) queue->drain();
}

void Series::begin_task(Flight& flight, std::function<void()> task) {
  if (!queue) queue = job.options.async.queue ? job.options.async.queue : thread_queue();
  flight.handle->idle = false;
  queue->run([&flight, handle = flight.handle, task = std::move(task)] {
    try {
      task();
    } catch (...) {
      flight.failure = std::current_exception();
    }
    handle->end_of_writing();
    handle->idle = true;
    handle->idle.notify_all();
  });
}

// The stage, for the application.
void Series::change(Flight& flight, SaveStage stage) const {
  flight.handle->stage = stage;
  const auto& tell = job.options.async.on_change;
  if (!tell) return;
  try {
    tell(SaveHandle(flight.handle));
  } catch (const std::exception& error) {
    log(LogLevel::warning, cat("AsyncOptions::on_change threw: ", error.what()));
  }
}

void Series::apply_tidied() {
  const std::lock_guard guard(tidied_mutex);
  for (const auto step : tidied) {
    std::erase_if(catalog, [&](const auto& entry) { return entry.step == step; });
  }
  tidied.clear();
}

void Series::throw_earlier_failure() {
  if (!earlier_failure) return;
  const auto error = *std::exchange(earlier_failure, std::nullopt);
  throw error;
}

std::optional<CatalogEntry> Series::copy_of(std::int64_t step) const {
  const auto* there = find(step);
  return there ? std::optional(*there) : std::nullopt;
}

// Moves saves in flight on as far as all ranks' tasks are done; or waits for these.
void Series::advance(bool wait) {
  while (!flights.empty()) {
    auto& flight = *flights.front();
    if (wait) flight.handle->idle.wait(false);
    if (!all_of(*job.group, flight.handle->idle)) return;
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
            cat("the asynchronous save of step ", flight.prepared.save.step, " failed: ",
                failed->what()));
      }
      if (job.options.async.throw_failures) earlier_failure = *failed;
    }
    if (failed || flight.handle->stage == SaveStage::committed) flights.pop_front();
  }
  if (wait && queue) queue->drain();
  apply_tidied();
}

void Series::settle() { advance(true); }

// All ranks' tasks are done: the verdict on them, and what comes next.
void Series::land(Flight& flight) {
  Group& group = *job.group;
  const auto& prepared = flight.prepared;
  const auto mine = error_of(std::exchange(flight.failure, nullptr));
  if (flight.stage == Flight::Stage::writing) {
    std::vector<StoredTensor> tensors;
    try {
      agree(group, mine);
      tensors = merge_entries(group, std::move(flight.entries));
    } catch (const Error& error) {
      give_up(error, prepared.save, false);
    }
    flight.stage = Flight::Stage::publishing;
    flight.out = {};
    if (!job.root()) return;
    flight.there = copy_of(prepared.save.step);
    flight.entries = std::move(tensors);
    begin_task(flight, [this, &flight] {
      publish(flight.prepared, flight.plan.layout, std::move(flight.entries), flight.there);
    });
    return;
  }
  const bool volatile_commit = mine && mine->code() == Code::durability_unknown;
  if (job.root() && (!mine || volatile_commit)) {
    apply_tidied();
    after_commit(prepared, volatile_commit);
    begin_tidying(prepared.save);
  }
  try {
    agree(group, mine);
  } catch (const Error& error) {
    give_up(error, prepared.save, volatile_commit);
  }
  change(flight, SaveStage::committed);
}

// Rank 0. On a copy of the catalog, which the caller's thread goes on with.
void Series::begin_tidying(const commit::Transaction& save) {
  queue->run([this, save, entries = catalog]() mutable {
    std::vector<std::int64_t> before, after;
    for (const auto& entry : entries) before.push_back(entry.step);
    try {
      tell_state_file(save.step, entries);
      tidy(save, entries);
    } catch (...) {  // the end of a job that is played in a test: its ranks see it elsewhere
      return;
    }
    for (const auto& entry : entries) after.push_back(entry.step);
    const std::lock_guard guard(tidied_mutex);
    for (const auto step : before) {
      if (std::find(after.begin(), after.end(), step) == after.end()) tidied.push_back(step);
    }
  });
}

// Collective. Deals with a save whose bytes are still on their way; whether a new one may begin.
bool Series::make_way() {
  advance(false);
  const auto writing = [&] {
    return !flights.empty() && flights.back()->stage == Flight::Stage::writing;
  };
  if (!writing()) return true;
  switch (job.options.async.when_busy) {
    case WhenBusy::wait:
      while (writing()) {
        for (const auto& flight : flights) flight->handle->idle.wait(false);
        advance(false);
      }
      return true;
    case WhenBusy::skip: return false;
    case WhenBusy::replace: break;
  }
  auto& flight = *flights.back();
  flight.cancelled = true;
  flight.handle->idle.wait(false);
  job.group->barrier();
  if (!withdraw(flight.prepared.save, false)) {
    throw Error(Code::io,
                cat("step ", flight.prepared.save.step, " was to give way to a later save, but ",
                    "could not be removed"),
                "", "Try again: it may still be completed.");
  }
  change(flight, SaveStage::replaced);
  flights.pop_back();
  return true;
}

std::string Series::why_blocking() const {
  if (!job.served_by.empty()) return "io ranks take the bytes in rounds of all ranks";
  if (job.shares_files()) return "ranks share files, which they write together";
  if (job.writes_datasets()) return "HDF5 writes all ranks' datasets together";
  return "";
}

// Collective. Why it does not fit on some rank.
std::optional<std::string> Series::capture(Flight& flight, const State& state) {
  Group& group = *job.group;
  const auto& plan = flight.plan;
  CaptureLayout layout;
  std::span<std::byte> memory;
  std::int64_t lacking = 0;
  together(group, [&] {
    flight.out = outgoing(state, plan.local, plan.layout.first_file);
    layout = capture_layout(flight.out, plan.dense, job.rank());
    auto most = job.options.async.pool_bytes;
    if (layout.bytes > pool.bytes() && most == 0) {
      const auto ranks = std::count(job.node_of.begin(), job.node_of.end(),
                                    job.node_of[static_cast<std::size_t>(job.rank())]);
      most = (io::available_memory() + pool.bytes()) / 2 / ranks;
    }
    if (most > 0 && layout.bytes > most) {
      lacking = layout.bytes;
    } else if (layout.bytes > 0) {
      memory = pool.reserve(layout.bytes);
      if (memory.empty()) lacking = layout.bytes;
    }
  });
  lacking = all_reduce(group, lacking, Group::Op::max);
  if (lacking > 0) {
    return cat("a rank's copy of ", bytes_text(static_cast<double>(lacking)),
               " does not fit its memory");
  }
  together(group, [&] { capture_shards(flight.out, layout, memory); });
  if (plan.dense.bytes > 0) {
    flight.runs = capture_dense(job, state, plan.dense,
                                memory.subspan(static_cast<std::size_t>(layout.shard_bytes)));
  }
  return std::nullopt;
}

// In the queue: this rank's bytes, then its record.
void Series::write_captured(Flight& flight) const {
  const auto& [save, meta] = flight.prepared;
  const auto& plan = flight.plan;
  auto entries = std::move(flight.entries);
  write_files(*job.files, save, flight.out, &flight.cancelled);
  std::move(flight.out.entries.begin(), flight.out.entries.end(), std::back_inserter(entries));
  if (!flight.runs.empty()) {
    auto runs = write_runs(*job.files, plan.dense, flight.runs, plan.layout.dense_file,
                           save.part(plan.layout.dense_file));
    std::move(runs.begin(), runs.end(), std::back_inserter(entries));
  }
  if (flight.cancelled) return;
  leave_record(job, save, meta, plan.layout, entries);
  flight.entries = std::move(entries);
  flight.handle->stage = SaveStage::written;
}

SaveHandle Series::save_async(std::int64_t step, const State& given, const SaveOptions& options) {
  Group& group = *job.group;
  require_writable("save");
  throw_earlier_failure();
  require_step(step, options);
  if (!make_way()) return done_handle(step, "", SaveStage::skipped);
  throw_earlier_failure();
  const auto block = [&](const std::string& why) {
    if (job.root() && !std::exchange(told_blocking, true)) {
      log(LogLevel::warning, cat("save_async saves before it returns: ", why));
    }
    auto prefix = save(step, given, options);
    return done_handle(step, std::move(prefix), SaveStage::committed, why);
  };
  if (const auto why = why_blocking(); !why.empty()) return block(why);
  for (const auto& flight : flights) {
    if (flight->prepared.save.step == step) {
      settle();
      throw_earlier_failure();
      break;
    }
  }
  const auto resolved = resolve(group, given);
  const State& state = resolved ? *resolved : given;
  auto made = std::make_unique<Flight>();
  auto& flight = *made;
  flight.plan = plan_save(job, state, turn());
  auto& [replicas, local, small, dense, layout] = flight.plan;
  auto& prepared = flight.prepared;
  flight.handle = std::make_shared<SaveHandle::Shared>(step);
  prepared = prepare(step, layout);
  prepared.meta.metric = options.metric;
  flight.handle->prefix = prepared.save.prefix().string();
  std::optional<std::string> does_not_fit;
  try {
    std::vector<commit::Patch> structure;
    flight.entries = prepared.save.hdf5
                         ? make_hdf5(job, prepared.save, prepared.meta, small, dense, structure)
                         : run_savers(job, state, prepared.save, layout, prepared.meta);
    does_not_fit = capture(flight, state);
    if (!does_not_fit && replicas.any) {
      const auto checksums = together(
          group, [&] { return replica_checksums(state, replicas, local.strings, {}); });
      compare(state, replicas, checksums, prepared);
    }
  } catch (const Error& error) {
    give_up(error, prepared.save, false);
  }
  if (does_not_fit) {
    withdraw(prepared.save, false);
    return block(*does_not_fit);
  }
  ++replica_turn;
  flights.push_back(std::move(made));
  change(flight, SaveStage::captured);
  begin_task(flight, [this, &flight] { write_captured(flight); });
  return SaveHandle(flight.handle);
}

SaveHandle CheckpointManager::save_async(std::int64_t step, const State& state,
                                         const SaveOptions& options) {
  const Job& job = impl_->job;
  return guarded(*job.group, [&] {
    impl_->call_before_save(step);
    if (!job.options.object_graph) return impl_->save_async(step, state, options);
    return impl_->save_async(step, with_object_graph(*job.group, state, step), options);
  });
}

bool CheckpointManager::poll() {
  return guarded(*impl_->job.group, [&] {
    impl_->advance(false);
    impl_->throw_earlier_failure();
    return impl_->flights.empty();
  });
}

void CheckpointManager::wait() {
  guarded(*impl_->job.group, [&] {
    impl_->settle();
    impl_->throw_earlier_failure();
  });
}

}  // namespace cairn
