// The beginning of a save that goes on behind the application's back: up to the capture.
#include <algorithm>
#include <bit>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "checkpoint/objects.hpp"
#include "checkpoint/series.hpp"
#include "group/collectives.hpp"
#include "io/limited.hpp"
#include "save/resolve.hpp"
#include "save/savers.hpp"

namespace cairn {
namespace {

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
    case WhenBusy::skip:
      return false;
    case WhenBusy::replace:
      break;
  }
  auto& flight = *flights.back();
  flight.cancelled = true;
  flight.handle->idle.wait(false);
  // What has failed is no longer on its way: it lands as a failure, with all that this takes.
  if (any_of(*job.group, flight.failure != nullptr)) {
    advance(true);
    return true;
  }
  // Whether it can be removed or not: what was cancelled must never land.
  const auto withdrawn = withdraw(flight.prepared.save, false);
  const bool gone = withdrawn == Withdrawn::gone;
  const auto step = flight.step;
  if (gone) ledger.replaced();
  if (!gone) ledger.failed();
  change(flight, gone ? SaveStage::replaced : SaveStage::failed);
  landed.push_back(std::move(flights.back()));
  flights.pop_back();
  if (!gone) {
    throw Error(Code::io,
                cat("step ", step, " was to give way to a later save, but could not be removed"),
                "", "Try again: until another save commits, a restart may still complete it.");
  }
  return true;
}

std::string Series::why_blocking() const {
  if (!job.served_by.empty()) return "io ranks take the bytes in rounds of all ranks";
  if (job.shares_files()) return "ranks share files, which they write together";
  if (job.writes_datasets()) return "HDF5 writes all ranks' datasets together";
  return "";
}

// One that has landed, where nobody looks at it any more.
std::unique_ptr<Flight> Series::new_flight(std::int64_t step, const SaveCall& call) {
  std::unique_ptr<Flight> flight;
  if (landed.empty()) {
    flight = std::make_unique<Flight>();
    flights.reserve(2);
    landed.reserve(2);
  } else {
    flight = std::move(landed.back());
    landed.pop_back();
    flight->stage = Flight::Stage::writing;
    flight->begun = flight->cancelled = false;
    flight->runs.clear();
    flight->entries.clear();
    flight->failure = nullptr;
    flight->prepared = {};
    flight->there.reset();
    flight->index.reset();
  }
  if (!flight->handle || flight->handle.use_count() > 1) {
    flight->handle = std::make_shared<SaveHandle::Shared>(step);
  } else {
    auto& shared = *flight->handle;
    shared.step = step;
    shared.stage = SaveStage::captured;
    shared.rank_is_done = false;
    shared.error.reset();
    shared.prefix.clear();
  }
  flight->step = step;
  flight->called = call.at;
  flight->counts = {};
  flight->figures = {};
  flight->figures.step = step;
  flight->figures.asynchronous = true;
  flight->figures.seconds.wait = std::chrono::duration<double>(call.way - call.at).count();
  if (trace) trace->add("wait", step, Trace::Thread::caller, call.at, call.way);
  return flight;
}

// The memory that slices ask for. A state without such slices takes what there is.
void Series::choose_memory(const State& state) {
  for (const auto& [key, tensor] : state.tensors()) {
    for (const auto& slice : tensor.slices) {
      if (auto memory = slice.memory->staging()) return pool.take_from(std::move(memory));
    }
  }
  if (!pool.intact()) pool.take_from(page_memory());
}

// Collective. Takes memory for a copy of what this rank will write; why it does not fit on some
// rank.
std::string Series::reserve(Flight& flight, const State& state) {
  Group& group = *job.group;
  auto& plan = *flight.plan;
  std::int64_t lacking = 0;
  together(group, [&] {
    const auto out = outgoing(state, plan.local, plan.layout.first_file);
    plan.capture = CaptureForm(state, out, capture_layout(out, plan.dense, job.rank()));
    const auto bytes = plan.capture.layout().bytes;
    if (!job.options.async.memory) choose_memory(state);
    auto most = job.options.async.pool_bytes;
    if (bytes > pool.bytes() && most == 0) {
      const auto ranks = std::count(job.node_of.begin(), job.node_of.end(),
                                    job.node_of[static_cast<std::size_t>(job.rank())]);
      most = (io::available_memory() + pool.bytes()) / 2 / ranks;
    }
    if (most > 0 && bytes > most) {
      lacking = bytes;
    } else {
      flight.memory = pool.reserve(bytes);
      flight.held = pool.hold();
      if (bytes > 0 && flight.memory.empty()) lacking = bytes;
    }
  });
  lacking = all_reduce(group, lacking, Group::Op::max);
  if (lacking > 0) {
    return cat("a rank's copy of ", bytes_text(static_cast<double>(lacking)),
               " does not fit its memory");
  }
  return "";
}

// Collective.
void Series::capture_runs(Flight& flight, const State& state) {
  const auto& plan = *flight.plan;
  if (plan.dense.bytes == 0) return;
  const auto behind = static_cast<std::size_t>(plan.capture.layout().shard_bytes);
  flight.runs = capture_dense(job, state, plan.dense, flight.memory.subspan(behind));
}

SaveHandle Series::save_async(std::int64_t step, const State& given, const SaveOptions& options) {
  Group& group = *job.group;
  const io::Deadline deadline(job.options.storage_limit_seconds);
  require_writable("save");
  SaveCall call;
  throw_earlier_failure();
  if (!make_way()) {
    ledger.skipped();
    return done_handle(step, "", SaveStage::skipped);
  }
  throw_earlier_failure();
  Attempt attempt(ledger);
  call.way = std::chrono::steady_clock::now();
  const auto block = [&](const std::string& why) {
    if (job.root() && !std::exchange(told_blocking, true)) {
      log(LogLevel::warning, cat("save_async saves before it returns: ", why));
    }
    attempt.done();  // save() counts
    call.why_blocking = why;
    auto prefix = save(step, given, options, call);
    const auto handle = done_handle(step, std::move(prefix), SaveStage::committed, why);
    tell(handle);
    return handle;
  };
  if (const auto why = why_blocking(); !why.empty()) return block(why);
  PlanSum sum;
  // An HDF5 file is laid out anew each time, on rank 0.
  const bool hdf5 = job.options.format == Format::hdf5;
  const Look look(given);
  bool again = reuse_plan(step, look, options, !hdf5, sum);
  if (again && !hdf5) {
    auto handle = save_again(step, given, options, sum, call);
    attempt.done();
    return handle;
  }

  if (!again) require_step(step, options);
  for (const auto& flight : flights) {
    if (flight->step != step) continue;
    settle();
    throw_earlier_failure();
    again = again && cached;  // a failure has ended the plan, on all ranks
    break;
  }
  std::optional<State> resolved;
  if (!again) resolved = resolve(group, look);
  const State& state = resolved ? *resolved : given;
  // A copy: where things lie is this file's own.
  const auto plan =
      again ? std::make_shared<SavePlan>(*cached.value().plan) : new_plan(given, state);
  auto made = new_flight(step, call);
  auto& flight = *made;
  Laps laps(flight.figures, trace.get(), Trace::Thread::caller, &StageSeconds::plan, call.way);
  flight.figures.replica_bytes = plan->replica_bytes;
  flight.figures.plan_reused = again;
  flight.plan = plan;
  flight.layout = plan->layout;
  if (const auto why = reserve(flight, state); !why.empty()) {
    laps.end();
    return block(why);
  }
  auto& prepared = flight.prepared;
  prepared = prepare(step, flight.layout);
  prepared.meta.metric = options.metric;
  prepared.save.counts = &flight.counts;
  flight.sequence = prepared.meta.sequence;
  flight.begun = true;
  flight.handle->prefix = prepared.save.prefix().string();
  try {
    std::vector<commit::Patch> structure;
    flight.entries =
        hdf5 ? make_hdf5(job, prepared.save, prepared.meta, plan->gathered, plan->dense, structure)
             : run_savers(job, state, prepared.save, flight.layout, prepared.meta);
    laps.next(&StageSeconds::capture);
    together(group, [&] { plan->capture.copy(state, plan->local.strings, flight.memory); });
    capture_runs(flight, state);
    if (plan->replicas.any && !again) {  // a plan is used again where replicas agree
      const auto checksums = together(
          group, [&] { return replica_checksums(state, plan->replicas, plan->local.strings, {}); });
      compare(state, plan->replicas, checksums, prepared);
    }
  } catch (const Error& error) {
    give_up(error, prepared.save, false);
  }
  ++replica_turn;
  SaveHandle handle(flight.handle);
  flights.push_back(std::move(made));
  laps.end();
  attempt.done();
  change(flight, SaveStage::captured);
  begin_task(flight, &Series::write_captured);
  flight.figures.blocked_seconds = seconds_since(call.at);
  return handle;
}

// Collective, but for dense tensors without a message: ranks have agreed on all that the sum tells.
SaveHandle Series::save_again(std::int64_t step, const State& state, const SaveOptions& options,
                              PlanSum& sum, const SaveCall& call) {
  auto made = new_flight(step, call);
  auto& flight = *made;
  Laps laps(flight.figures, trace.get(), Trace::Thread::caller, &StageSeconds::plan, call.way);
  flight.figures.plan_reused = true;
  flight.figures.replica_bytes = cached->plan->replica_bytes;
  flight.plan = cached->plan;
  flight.layout = flight.plan->layout;
  flight.metric = options.metric;
  flight.sequence = last_sequence = sum[PlanSum::sequence];
  flight.parent = sum[PlanSum::parent];
  flight.time = std::bit_cast<double>(sum[PlanSum::time]);
  flight.uuid_high = static_cast<std::uint64_t>(sum[PlanSum::uuid_high]);
  flight.uuid_low = static_cast<std::uint64_t>(sum[PlanSum::uuid_low]);
  flight.recycled_bytes = sum[PlanSum::recycled_bytes];
  const auto& capture = flight.plan->capture;
  laps.next(&StageSeconds::capture);
  flight.memory = pool.reserve(capture.layout().bytes);
  flight.held = pool.hold();
  capture_runs(flight, state);
  ++replica_turn;
  try {
    capture.copy(state, flight.plan->local.strings, flight.memory);
  } catch (...) {
    error_in_flight();
    flight.failure = std::current_exception();  // for the verdict
  }
  SaveHandle handle(flight.handle);
  flights.push_back(std::move(made));
  laps.end();
  change(flight, SaveStage::captured);
  if (flight.failure) {
    flight.held = {};
    flight.handle->end_of_writing();
  } else {
    begin_task(flight, &Series::write_captured);
  }
  flight.figures.blocked_seconds = seconds_since(call.at);
  return handle;
}

SaveHandle CheckpointManager::save_async(std::int64_t step, const State& state,
                                         const SaveOptions& options) {
  const Job& job = impl_->job;
  return guarded(*job.group, "CheckpointManager::save_async", [&] {
    impl_->meet_for_save();
    impl_->clear_way_for_last_save();
    impl_->call_before_save(step);
    auto handle = job.options.object_graph
                      ? impl_->save_async(step, with_object_graph(*job.group, state, step), options)
                      : impl_->save_async(step, state, options);
    // Skipped on all ranks or on none.
    if (handle.stage() != SaveStage::skipped) {
      impl_->turns->saved(step, handle.blocked_because().empty());
    }
    return handle;
  });
}

bool CheckpointManager::poll() {
  return guarded(*impl_->job.group, "CheckpointManager::poll", [&] {
    impl_->advance(false);
    impl_->throw_earlier_failure();
    return impl_->flights.empty();
  });
}

void CheckpointManager::wait() {
  guarded(*impl_->job.group, "CheckpointManager::wait", [&] {
    impl_->settle();
    impl_->throw_earlier_failure();
  });
}

}  // namespace cairn
