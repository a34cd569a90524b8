// One save, from the call to the committed checkpoint: blocking or asynchronous, with a new plan or
// that of the last save.
//
//   advance   pending saves move on; before a blocking save they complete
//   plan      who writes what, and where; the last plan if the form of no rank's state has changed
//   prepare   number, name, temp directory; if ranks have agreed on number and name by a sum, each
//             writer makes the directory if it does not exist
//   write     this rank's bytes and those that ranks exchange, durable; an asynchronous save
//             copies them first
//   compare   replicas: with checksums from writing; an asynchronous save computes them from the
//             application's memory before it returns
//   record    what a recovery needs to complete the save
//   agree     all ranks agree on success or one error
//   merge     the entries of all ranks become those of one index, on rank 0
//   commit    the checkpoint counts; a blocking save writes the state file before ranks agree
//   tidy      removes what the save replaced and what retention lets go; an asynchronous save
//             writes the state file here
//
// Messages between ranks are sent in calls of the application. What a rank does alone is done there
// too, or in the queue of PendingSaves. Once all ranks have left their records, a restart completes
// the save without any of these calls.
#include "session/save_stages.hpp"

#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "io/limited.hpp"
#include "session/elsewhere.hpp"
#include "session/open.hpp"
#include "session/save/key_schedule.hpp"
#include "session/save/writers/writer.hpp"
#include "session/schedule/question_rounds.hpp"

namespace cairn {

namespace {

std::int64_t bytes_of_gaps(const GapsByKey& gaps) {
  std::int64_t bytes = 0;
  for (const auto& [key, one] : gaps) {
    bytes += one->elements() * static_cast<std::int64_t>(one->fill.size());
  }
  return bytes;
}

}  // namespace

SaveHandle Saves::run(const SaveRequest& request) {
  try {
    opening_.own_after_all();
    return run_as_asked(request);
  } catch (const Error& error) {
    key_schedule.begin_anew();
    if (job.root() && error.code() != Code::communication) store.save_failed(request.step, error);
    throw;
  } catch (...) {
    key_schedule.begin_anew();
    throw;
  }
}

// Advances pending saves, then tries the save until it succeeds, fails for another reason than
// room, or has to block.
SaveHandle Saves::run_as_asked(const SaveRequest& request) {
  const auto& [step, given, options, background, call] = request;
  std::optional<io::Deadline> deadline(job.options.write.storage_limit_seconds);
  opening_.require_writable("save");
  if (elsewhere) {
    if (auto handle = elsewhere->save(request)) {
      if (job.root()) store.saved_elsewhere(step);
      return *handle;
    }
    elsewhere->make_way();
  }

  // advance
  if (!background) stages_.completion.advance(true);
  pending_saves.throw_earlier_failure_instead_of(step);
  if (background && !stages_.planning.make_way()) {
    save_log.skipped();
    return done_handle(step, "", SaveStage::skipped);
  }
  pending_saves.throw_earlier_failure_instead_of(step);
  Attempt attempt(save_log);
  call.way = std::chrono::steady_clock::now();
  std::string why = background ? writer_of(job).why_blocking() : "";
  // Ends when room can be made no more, since make_room() succeeds only if it has removed a
  // checkpoint; or when the save has to block, which sets `why`.
  while (why.empty()) try {
      if (auto handle = try_save(request, attempt, why)) return *handle;
    } catch (const Error& error) {
      // The error of an earlier save says nothing about the room that this save needs.
      if (error.code() != Code::no_space || pending_saves.throws_earlier()) throw;
      deadline.reset();  // it limits the save, not what makes room for it
      if (const auto still = stages_.room.make_room(error, step)) throw Error(*still);
      deadline.emplace(job.options.write.storage_limit_seconds);
    }
  attempt.done();  // run_blocking() counts it
  return run_blocking(request, why);
}

// The part of a save that is repeated after room has been made for it.
std::optional<SaveHandle> Saves::try_save(const SaveRequest& request, Attempt& attempt,
                                          std::string& why) {
  const auto& [step, given, options, background, call] = request;
  // plan
  // What the application gives by reference is read once, here. All stages use this result.
  const RefreshedState seen(given, seen_memory_);
  auto planned = stages_.planning.plan(request, seen);
  const auto& state = planned.resolved ? *planned.resolved : seen;
  auto made = pending_saves.make(step, background, call);
  auto& pending = *made;
  if (trace) trace->add("wait", step, Trace::Thread::caller, call.at, call.way);
  StageTimer timer(pending.figures, trace.get(), Trace::Thread::caller, &StageSeconds::plan,
                   call.way);
  pending.plan = planned.plan;
  pending.layout = planned.plan->layout;
  pending.id = planned.id;
  pending.asked.metric = options.metric;
  if (background) pending.asked.until = stays_until(job, options);
  if (background && options.until != pending.asked.until) {
    pending.handle->tell_why("with a storage limit the state is copied at the call");
  }
  pending.asked.left_out = key_schedule.left_out();
  pending.asked.descriptions = planned.descriptions;
  pending.figures.plan_reused = planned.again;
  pending.figures.replica_bytes = planned.plan->replica_bytes;
  if (job.root()) pending.figures.gap_bytes = bytes_of_gaps(*planned.plan->gaps);
  if (pending.id) {
    pending.sequence = pending.id->sequence;
    pending_saves.reserve_again(pending, state);
  } else if (background) {
    why = pending_saves.reserve(pending, state);
    if (!why.empty()) return std::nullopt;
  }
  if (!pending.id) prepare(pending, request);

  // With the last plan, the sum over ranks has compared the replicas already (ReplicaWatch).
  const bool compares = pending.plan->replicas.any && !planned.again;
  auto handle = background ? go_on_behind(std::move(made), state, compares, timer, attempt)
                           : save_now(std::move(made), state, compares, timer, attempt);
  key_schedule.saved();
  return handle;
}

void Saves::prepare(PendingSave& pending, const SaveRequest& request) {
  const bool may_overwrite = job.options.overwrite || request.options.overwrite;
  auto& [draft, meta] = pending.prepared.emplace(
      stages_.planning.prepare(pending, leaves_records(request), may_overwrite));
  pending.sequence = meta.sequence;
  stages_.writing.tell_meta(pending);
  pending.result.notes.looks = job.options.restore.finite;
  draft.note_into(pending.result.notes);
  pending.handle->take(draft.prefix().string());
  store.history().place(meta, job.naming.numbered);
}

// Copies and compares; the rest happens in the background.
SaveHandle Saves::go_on_behind(std::unique_ptr<PendingSave>&& made, const RefreshedState& state,
                               bool compares, StageTimer& timer, Attempt& attempt) {
  auto& [room, writing, completion, planning] = stages_;
  auto& pending = *made;
  try {
    writing.copy(pending, state, compares, timer);
  } catch (const Error& error) {
    if (pending.id) throw;  // nothing has been made of it yet
    completion.give_up(error, &pending.prepared->draft, false);
  }
  plans.end_round();
  SaveHandle handle(pending.handle);
  pending_saves.add(std::move(made));
  timer.end();
  attempt.done();
  completion.change(pending, SaveStage::captured);
  writing.work_in_background(pending);
  pending.figures.blocked_seconds = seconds_since(pending.asked.at);
  return handle;
}

// The stages of a blocking save, all in this call. On a failure before the commit the save is
// withdrawn; after it, only tidying is left.
SaveHandle Saves::save_now(std::unique_ptr<PendingSave>&& made, const RefreshedState& state,
                           bool compares, StageTimer& timer, Attempt& attempt) {
  auto& [room, writing, completion, planning] = stages_;
  auto& pending = *made;
  // write, compare, record, merge
  timer.next(&StageSeconds::write);
  try {
    writing.write(pending, state, compares);
    plans.end_round();
    timer.next(&StageSeconds::merge);
    completion.merge(pending);
    completion.name_data(pending, job);
  } catch (const Error& error) {
    completion.give_up(error, &pending.prepared->draft, false);
  }

  // commit, tidy
  timer.next(&StageSeconds::commit);
  if (job.root()) {
    try {
      completion.make_ready(pending);
      writing.publish(pending);
    } catch (...) {
      pending.failure = std::current_exception();
    }
  }
  completion.finish(pending);
  timer.next(&StageSeconds::tidy);
  pending.figures.total_seconds = seconds_since(pending.asked.at);
  if (job.root()) store.tidy(&pending.prepared->draft);
  timer.end();
  attempt.done();
  pending.figures.blocked_seconds = seconds_since(pending.asked.at);
  completion.enter(pending);
  SaveHandle handle(pending.handle);
  pending_saves.retire(std::move(made));
  return handle;
}

// Whether a restart must be able to complete the save if the job dies between the last byte and the
// commit. During a blocking save the application waits, so it loses nothing if the save is lost
// with the job. After the last save before a stop it would not be there to save again.
bool Saves::leaves_records(const SaveRequest& request) const {
  return request.background || !request.call.why_blocking.empty() ||
         job.options.write.part_records || !job.atomic_rename || (rounds && rounds->stop());
}

// Saves blocking after all, since this save cannot be asynchronous.
SaveHandle Saves::run_blocking(const SaveRequest& request, const std::string& why) {
  if (job.root() && pending_saves.take_first_block()) {
    log(LogLevel::warning, cat("save_async saves before it returns: ", why));
  }
  request.call.why_blocking = why;
  auto call = request.call;
  auto prefix = run_as_asked({request.step, request.given, request.options, false, call}).prefix();
  auto handle = done_handle(request.step, std::move(prefix), SaveStage::committed, why);
  stages_.completion.tell(handle);
  return handle;
}

}  // namespace cairn
