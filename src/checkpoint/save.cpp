// One save, from the call to the committed checkpoint: blocking or behind the application's back,
// the first or one like the last.
//
//   settle    what is in flight moves on; before a blocking save it lands
//   plan      who writes what, and where: the last plan, where no rank's state has another form
//   prepare   number, name, temp directory
//   write     this rank's bytes and those that ranks exchange, durable; behind the application's
//             back, a copy of them first
//   compare   replicas
//   record    what a recovery needs to complete the save
//   verdict   of all ranks
//   merge     the entries of all ranks become those of one index, on rank 0
//   commit    the checkpoint counts
//   tidy      state file, retention
//
// What ranks do together happens in calls of the application; what a rank does alone happens there
// too, or in the queue of Flights. From the end of all ranks' records on, a restart completes the
// save without any of these calls.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "base/text.hpp"
#include "base/unwinding.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "checkpoint/engine.hpp"
#include "group/collectives.hpp"
#include "io/limited.hpp"
#include "save/resolve.hpp"
#include "save/savers.hpp"

namespace cairn {

#ifndef CAIRN_VERSION
#define CAIRN_VERSION "unknown"
#endif

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Of all bits, so that ranks agree on NaN too.
std::string metric_text(const std::optional<double>& metric) {
  if (!metric) return "none";
  return cat(*metric,
             std::isnan(*metric) ? "" : cat(", bits ", std::bit_cast<std::uint64_t>(*metric)));
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

// Passes on what may not be told as an Error.
std::optional<Error> error_of(const std::exception_ptr& failure) {
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    return error_in_flight();
  }
}

void append(std::vector<StoredTensor>& to, std::vector<StoredTensor>& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

}  // namespace

std::string Engine::save(std::int64_t step, const State& given, const SaveOptions& options,
                         const SaveCall& call) {
  auto mine = call;
  Request request{step, given, options, false, mine};
  return run(request).prefix();
}

SaveHandle Engine::save_async(std::int64_t step, const State& given, const SaveOptions& options) {
  SaveCall call;
  Request request{step, given, options, true, call};
  return run(request);
}

SaveHandle Engine::run(Request& request) {
  const auto& [step, given, options, background, call] = request;
  const io::Deadline deadline(job.options.storage_limit_seconds);
  require_writable("save");

  // settle
  if (!background) settle();
  throw_earlier_failure();
  if (background && !make_way()) {
    ledger.skipped();
    return done_handle(step, "", SaveStage::skipped);
  }
  throw_earlier_failure();
  Attempt attempt(ledger);
  call.way = std::chrono::steady_clock::now();
  if (const auto why = background ? why_blocking() : ""; !why.empty()) {
    attempt.done();  // the blocking save counts
    return run_blocking(request, why);
  }

  // plan
  const Look look(given);
  auto planned = plan(request, look);
  const State& state = planned.resolved ? *planned.resolved : given;
  auto made = flights.make(step, background, call);
  auto& flight = *made;
  if (trace) trace->add("wait", step, Trace::Thread::caller, call.at, call.way);
  Laps laps(flight.figures, trace.get(), Trace::Thread::caller, &StageSeconds::plan, call.way);
  flight.plan = planned.plan;
  flight.layout = planned.plan->layout;
  flight.numbers = planned.numbers;
  flight.metric = options.metric;
  flight.figures.plan_reused = planned.again;
  flight.figures.replica_bytes = planned.plan->replica_bytes;
  if (flight.numbers) {
    flights.reserve_again(flight);
  } else if (background) {
    if (const auto why = flights.reserve(flight, state); !why.empty()) {
      laps.end();
      attempt.done();
      return run_blocking(request, why);
    }
  }

  // prepare
  if (!flight.numbers) {
    auto& [save, meta] = flight.prepared.emplace(prepare(step, flight.layout));
    meta.metric = options.metric;
    save.counts = &flight.counts;
    flight.handle->prefix = save.prefix().string();
    directory.place_in_history(meta);
  }

  // write, compare, record
  const bool compares = flight.plan->replicas.any && !planned.again;
  laps.next(background ? &StageSeconds::capture : &StageSeconds::write);
  if (background) {
    copy(flight, state, compares);
    plans.turn_is_over();
    SaveHandle handle(flight.handle);
    flights.add(std::move(made));
    laps.end();
    attempt.done();
    change(flight, SaveStage::captured);
    work_in_background(flight);
    flight.figures.blocked_seconds = seconds_since(call.at);
    return handle;
  }
  bool committed = false;
  try {
    write(flight, state, compares);
    plans.turn_is_over();
    laps.next(&StageSeconds::merge);
    merge(flight);
  } catch (const Error& error) {
    give_up(error, flight.prepared->save, false);
  }

  // commit, tidy
  laps.next(&StageSeconds::commit);
  if (job.root()) {
    try {
      commit(flight);
    } catch (...) {
      flight.failure = std::current_exception();
    }
  }
  finish(flight);
  laps.next(&StageSeconds::tidy);
  if (job.root()) directory.tidy(flight.prepared->save);
  laps.end();
  attempt.done();
  flight.figures.blocked_seconds = seconds_since(call.at);
  enter(flight);
  SaveHandle handle(flight.handle);
  flights.keep_for_later(std::move(made));
  return handle;
}
