// One save, from the call to the committed checkpoint: blocking or behind the application's back,
// the first or one like the last.
//
//   settle    what is in flight moves on; before a blocking save it lands
//   plan      who writes what, and where: the last plan, where no rank's state has another form
//   prepare   number, name, temp directory; where ranks have agreed on number and name by a sum,
//             each writer makes the directory if it is not there
//   write     this rank's bytes and those that ranks exchange, durable; behind the application's
//             back, a copy of them first
//   compare   replicas: with checksums from writing, or, in the background, of the application's
//             memory before it is let go
//   record    what a recovery needs to complete the save
//   verdict   of all ranks
//   merge     the entries of all ranks become those of one index, on rank 0
//   commit    the checkpoint counts; a blocking save tells the state file before its verdict
//   tidy      what the save replaced and what retention lets go; in the background, the state file
//
// What ranks do together happens in calls of the application; what a rank does alone happens there
// too, or in the queue of Flights. From the end of all ranks' records on, a restart completes the
// save without any of these calls.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "io/limited.hpp"
#include "session/engine.hpp"
#include "session/save/formats/save_format.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {

namespace {

// Whole files that this rank alone has written.
void note_files(Flight& flight, const std::vector<StoredTensor>& entries) {
  int last = -1;  // they come file by file
  for (const auto& entry : entries) {
    const int file = entry.slices.front().file;
    if (file != std::exchange(last, file)) flight.result.data_files.insert(file);
  }
}

std::int64_t bytes_of_gaps(const GapsByKey& gaps) {
  std::int64_t bytes = 0;
  for (const auto& [key, one] : gaps) {
    bytes += one->elements() * static_cast<std::int64_t>(one->fill.size());
  }
  return bytes;
}

void append(std::vector<StoredTensor>& to, std::vector<StoredTensor>& from) {
  if (to.empty()) return to.swap(from);
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
  own_after_all();
  std::optional<io::Deadline> deadline(job.options.write.storage_limit_seconds);
  require_writable("save");
  if (nodes.is_on() && goes_to_nodes(options)) {
    if (auto handle = save_on_nodes(request)) return *handle;
  }
  cancel_flush();

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
  std::string why = background ? writer_of(job).why_blocking() : "";
  while (why.empty()) try {
      if (auto handle = try_save(request, attempt, why)) return *handle;
    } catch (const Error& error) {
      if (error.code() != Code::no_space || throws_earlier_) throw;
      deadline.reset();  // it says how long a save may take, not how long what it needs first
      if (const auto still = make_room(error, step)) throw Error(*still);
      deadline.emplace(job.options.write.storage_limit_seconds);
    }
  attempt.done();  // the blocking save counts
  return run_blocking(request, why);
}

// All of it that comes again where room has been made for it.
std::optional<SaveHandle> Engine::try_save(const Request& request, Attempt& attempt,
                                           std::string& why) {
  const auto& [step, given, options, background, call] = request;
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
  flight.id = planned.id;
  flight.asked.metric = options.metric;
  flight.asked.descriptions = planned.descriptions;
  flight.figures.plan_reused = planned.again;
  flight.figures.replica_bytes = planned.plan->replica_bytes;
  if (job.root()) flight.figures.gap_bytes = bytes_of_gaps(*planned.plan->gaps);
  if (flight.id) {
    flight.sequence = flight.id->sequence;
    flights.reserve_again(flight);
  } else if (background) {
    why = flights.reserve(flight, state);
    if (!why.empty()) return std::nullopt;
  }

  // prepare
  if (!flight.id) {
    auto& [draft, meta] = flight.prepared.emplace(prepare(
        flight, leaves_records(background, call), job.options.overwrite || options.overwrite));
    flight.sequence = meta.sequence;
    tell_meta(flight);
    draft.count_into(flight.result.counts);
    flight.handle->take(draft.prefix().string());
    directory.history().place(meta, job.naming.numbered);
  }

  // write, compare, record
  const bool compares = flight.plan->replicas.any && !planned.again;
  if (background) {
    copy(flight, state, compares, laps);
    plans.end_turn();
    SaveHandle handle(flight.handle);
    flights.add(std::move(made));
    laps.end();
    attempt.done();
    change(flight, SaveStage::captured);
    work_in_background(flight);
    flight.figures.blocked_seconds = seconds_since(call.at);
    return handle;
  }
  laps.next(&StageSeconds::write);
  try {
    write(flight, state, compares);
    plans.end_turn();
    laps.next(&StageSeconds::merge);
    merge(flight);
    name_data(flight, job);
  } catch (const Error& error) {
    give_up(error, &flight.prepared->draft, false);
  }

  // commit, tidy
  laps.next(&StageSeconds::commit);
  if (job.root()) {
    try {
      make_ready(flight);
      publish(flight);
    } catch (...) {
      flight.failure = std::current_exception();
    }
  }
  finish(flight);
  laps.next(&StageSeconds::tidy);
  flight.figures.total_seconds = seconds_since(call.at);
  if (job.root()) directory.tidy(flight.prepared->draft);
  laps.end();
  attempt.done();
  flight.figures.blocked_seconds = seconds_since(call.at);
  enter(flight);
  SaveHandle handle(flight.handle);
  flights.retire(std::move(made));
  return handle;
}

// Blocking after all: asynchronous saves cannot serve this.
SaveHandle Engine::run_blocking(const Request& request, const std::string& why) {
  if (job.root() && flights.take_first_block()) {
    log(LogLevel::warning, cat("save_async saves before it returns: ", why));
  }
  request.call.why_blocking = why;
  auto prefix = save(request.step, request.given, request.options, request.call);
  auto handle = done_handle(request.step, std::move(prefix), SaveStage::committed, why);
  tell(handle);
  return handle;
}

void Engine::require_writable(const char* what) const {
  if (!job.options.read_only) return;
  if (reads_only_) throw Error(*reads_only_);
  throw Error(Code::invalid_argument, cat("a read-only manager cannot ", what),
              cat("it does not own ", job.directory.string()),
              "Make it without ManagerOptions::read_only.");
}

// Callbacks may do what ranks do together: before them ranks must know that they are in one call.
void Engine::meet_for_save() const {
  if (!job.options.hooks.before_save.empty() || job.options.store.object_graph) meet();
}

void Engine::call_before_save(std::int64_t step) const {
  const auto& callbacks = job.options.hooks.before_save;
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    together(*job.group, [&] {
      try {
        callbacks[i](step);
      } catch (...) {
        throw application_error(cat("before-save callback ", i + 1, " of ", callbacks.size()));
      }
    });
  }
}

// Write, compare and record of a blocking save: bytes go from the application's memory, over
// other ranks where these write them. Checksums of replicas come from writing.
void Engine::write(Flight& flight, const State& state, bool compares) {
  Group& group = *job.group;
  const auto& writer = writer_of(job);
  auto& plan = *flight.plan;
  const auto& layout = flight.layout;
  auto& [draft, meta] = *flight.prepared;
  auto begun = save_format_of(job).begin(job, state, draft, meta, plan, flight.layout);
  auto runs = write_dense(job, state, plan.dense, layout.dense_file, begun.structure, draft);
  std::vector<StoredTensor> entries;
  if (layout.shard_files > 0) {
    entries = writer.write_with_others(job, state, plan.local, layout, draft);
  }
  const bool for_others = !job.places.served_by.empty();
  const auto gather_and_record = [&] {
    append(entries, runs);
    append(entries, begun.entries);
    flight.result.entries = std::move(entries);
    record(flight);
  };
  const auto checksums = together(group, [&, &draft = draft] {
    auto alone = writer.write_alone(job, state, plan.local, layout, draft);
    note_files(flight, alone);
    if (for_others) note_files(flight, entries);
    append(entries, alone);
    write_frozen(flight, state);
    append(entries, flight.result.entries);
    if (!compares) {
      gather_and_record();
      return std::vector<std::uint32_t>();
    }
    // What was written for others says nothing of this rank's own replicas.
    static const std::vector<StoredTensor> none;
    return replica_checksums(state, plan.replicas, plan.local.strings, for_others ? none : entries);
  });
  if (!compares) return;
  plans.compare(state, plan.replicas, checksums, draft.prefix().string());
  together(group, gather_and_record);
}

// The files of this rank's frozen tensors, and their entries. No thread of ours has them to write:
// most saves share them, and a copy of them would be the largest part of what is copied.
void Engine::write_frozen(Flight& flight, const State& state) {
  const auto& plan = *flight.plan;
  auto& result = flight.result;
  result.frozen =
      frozen.write(job, state, plan.frozen, flight.layout.first_frozen, flight.prepared->draft);
  for (const auto& file : result.frozen.files) {
    note_files(flight, file.entries);
    result.entries.insert(result.entries.end(), file.entries.begin(), file.entries.end());
  }
}

// The copy of an asynchronous save, and its comparison. Where nothing has been made of the save
// yet, ranks exchange no message but dense tensors and what io ranks write for others: what goes
// wrong waits for the verdict.
void Engine::copy(Flight& flight, const State& state, bool compares, Laps& laps) {
  auto& plan = *flight.plan;
  const auto copy_dense = [&] {
    if (plan.dense.bytes == 0) return;
    const auto behind = static_cast<std::size_t>(plan.capture.layout().shard_bytes);
    flight.copy.runs = capture_dense(job, state, plan.dense, flight.copy.memory.subspan(behind));
  };
  const auto copy_shards = [&] {
    flight.copy.sent = plan.capture.copy(job, state, plan.local.strings, flight.copy.memory);
  };
  if (flight.id) {
    laps.next(&StageSeconds::capture);
    copy_dense();
    try {
      copy_shards();
    } catch (...) {
      error_in_flight();  // what may not be told as an Error goes on
      flight.failure = std::current_exception();
    }
    return;
  }
  auto& [draft, meta] = *flight.prepared;
  try {
    flight.result.entries =
        save_format_of(job).begin(job, state, draft, meta, plan, flight.layout).entries;
    laps.next(&StageSeconds::capture);
    together(*job.group, [&] {
      copy_shards();
      write_frozen(flight, state);
    });
    copy_dense();
    if (!compares) return;
    const auto checksums = together(*job.group, [&] {
      return replica_checksums(state, plan.replicas, plan.local.strings, {});
    });
    plans.compare(state, plan.replicas, checksums, draft.prefix().string());
  } catch (const Error& error) {
    give_up(error, &draft, false);
  }
}

// Hands the flight's next task to the queue, unless it has failed already: either way it becomes
// idle, and ranks find out together.
void Engine::work_in_background(Flight& flight) {
  flight.handle->idle = false;
  if (flight.failure) {
    flight.copy.held = {};
    return become_idle(flight);
  }
  try {
    // No more than a std::function holds without an allocation.
    flights.later([this, &flight] {
      const io::Deadline deadline(job.options.write.storage_limit_seconds);
      try {
        work_on(flight);
      } catch (...) {
        flight.failure = std::current_exception();
      }
      become_idle(flight);
    });
  } catch (...) {  // not taken: other ranks wait for this one's verdict
    flight.failure = std::current_exception();
    flight.copy.held = {};
    become_idle(flight);
  }
}

void Engine::work_on(Flight& flight) {
  if (flight.result.merged) {
    const Laps laps(flight.figures, trace.get(), Trace::Thread::writer, &StageSeconds::commit);
    publish(flight);
  } else {
    write_copy(flight);
  }
}

// Any thread. Write and record of an asynchronous save.
void Engine::write_copy(Flight& flight) const {
  const Laps laps(flight.figures, trace.get(), Trace::Thread::writer, &StageSeconds::write);
  const auto held = std::move(flight.copy.held);
  const auto& layout = flight.layout;
  if (!flight.prepared) {
    take_name(flight);
    if (job.root()) {
      directory.look_before(flight.prepared->draft, layout.total_bytes);
    }
    if (job.root() || layout.writer >= 0) flight.prepared->draft.make_place();
  }
  const auto& draft = flight.prepared->draft;
  // Several ranks may write a file of dense tensors, which is made anew.
  if (job.root() && layout.dense_file >= 0) {
    directory.remove_untaken(draft, layout.dense_file, layout.data_files);
  }
  const auto& plan = *flight.plan;
  auto out = plan.capture.outgoing(flight.copy.memory, plan.local.strings, flight.copy.sent);
  write_files(draft, out, &flight.cancelled);
  if (!flight.cancelled) plan.capture.check(out, flight.copy.sent);
  note_files(flight, out.entries);
  append(flight.result.entries, out.entries);
  if (!flight.copy.runs.empty()) {
    auto runs = write_runs(draft, plan.dense, flight.copy.runs, layout.dense_file);
    append(flight.result.entries, runs);
  }
  if (flight.cancelled) return;
  record(flight);
  flight.handle->stage = SaveStage::written;
}

// Any thread.
void Engine::record(Flight& flight) const {
  const auto& [draft, meta] = *flight.prepared;
  if (draft.leaves_records()) leave_record(job, draft, meta, flight.layout, flight.result.entries);
}

}  // namespace cairn
