// Copies checkpoints from the nodes to the manager's directory ("home") while the application
// computes:
//
//   begin     after a save on the nodes, if a copy is due: the plan, the temp directory; dense
//             tensors are put together
//   write     in a queue of its own, at the pace that was asked for: reads the nodes' files,
//             compares their checksums, then leaves a part record
//   advance   in calls that save, poll or wait, once all ranks have left their records: agree,
//             merge
//   commit    in the queue, on rank 0
//   advance   once the index is there: agree; then tidy, as after an asynchronous save
//
// The copy keeps the sequence, parent and time of the save on the nodes, so that what was saved
// there meanwhile stays newer. Only wait() waits for it, and any other save to the directory takes
// its place. Once all ranks have left their records, a restart completes it.
#include "session/nodes/flush.hpp"

#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/save/formats/save_format.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {
namespace {

// Each rank writes for itself: io ranks read the parts of their nodes, and other ranks have nothing
// to write.
Job job_of_flush(Job job) {
  job.options.write.writer = Writer::posix;
  job.options.write.io_ranks = {.choice = IoRanks::Choice::everyone};
  job.options.store.device_of = nullptr;
  job.places.served_by.clear();
  job.places.file_of.clear();
  return job;
}

}  // namespace

Flush::Flush(const Job& home, double bytes_per_second)
    : job(job_of_flush(home)), pace(bytes_per_second) {}

Flusher::~Flusher() {
  if (!flush_) return;
  flush_->pace.hurry();
  if (queue_) queue_->drain();
  // The checkpoint is still on the nodes.
  stages_.completion.tell_unfinished(*flush_->pending, LogLevel::warning,
                                     "the way home from the nodes");
  try {
    pending_saves.add(std::move(flush_->pending));
  } catch (...) {  // the end of the engine removes it then
  }
}

bool Flusher::is_due() const {
  const auto& tier = job.options.tier;
  return tier.flush_bytes_per_second > 0 && tier.home_every > 0 && !flush_ &&
         pending_saves.empty() && since_home_ >= tier.home_every;
}

void Flusher::begin() {
  std::unique_ptr<Flush> made;
  try {
    made = plan(nodes_.saves().front(), since_home_);
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    const auto step = nodes_.saves().front().map.step;
    return failed(step, stages_.room.make_room_for_next(error, step));
  }
  flush_ = std::move(made);
  work();
}

// Gathers the save from the nodes as a state, and plans a save of that state as if the application
// had given it. So the copy may have another format and layout than the parts.
std::unique_ptr<Flush> Flusher::plan(tier::LocalSave save, int saves_before) {
  constexpr auto readers = tier::Tier::Readers::io_ranks;
  auto made = run_and_agree(*job.group, [&] {
    return std::make_unique<Flush>(
        // The pace is that of the whole job, so each reader gets an equal part of it.
        job, static_cast<double>(job.options.tier.flush_bytes_per_second) / nodes_.count(readers));
  });
  auto& flush = *made;
  flush.saves_before = saves_before;
  flush.from = nodes_.gather(save, readers);
  const auto& origin = flush.from->meta();
  // A plan for this copy alone: the application's next save needs the plan that the engine keeps.
  Plans plan_of(flush.job);
  plan_of.begin(0);
  RefreshedState seen(flush.from->state());
  auto planned = plan_of.make_anew(seen, {}, flush.job.sharding);
  flush.state.emplace(std::move(planned.resolved ? *planned.resolved : seen));
  SaveCall call;
  call.way = call.at;
  flush.pending = pending_saves.make(origin.step, true, call);
  auto& pending = *flush.pending;
  pending.asked.is_flush = true;
  pending.asked.metric = origin.metric;
  pending.asked.application = origin.application;
  pending.asked.descriptions = planned.descriptions;
  pending.plan = std::move(planned.plan);
  pending.layout = pending.plan->layout;
  pending.sequence = origin.sequence;
  prepare(flush);
  // Saves on the nodes go on meanwhile, and must not remove the files that the copy reads.
  nodes_.hold(save.map.uuid);
  pending.figures.blocked_seconds = seconds_since(call.at);
  return made;
}

// Prepares the save, and puts together the tensors whose parts are on several ranks.
void Flusher::prepare(Flush& flush) {
  Group& group = *job.group;
  auto& pending = *flush.pending;
  const auto& state = *flush.state;
  const auto& plan = *pending.plan;
  const auto& origin = flush.from->meta();
  // A checkpoint of this step in the directory is older than this one, so it may be overwritten.
  pending.prepared.emplace(stages_.planning.prepare(pending, true, true, &origin));
  auto& [draft, meta] = *pending.prepared;
  meta.wall_time_seconds = origin.wall_time_seconds;
  try {
    stages_.writing.tell_meta(pending);
    draft.note_into(pending.result.notes);
    pending.result.entries.add(
        save_format_of(flush.job)
            .begin(flush.job, state, draft, meta, *pending.plan, pending.layout)
            .entries);
    run_and_agree(group, [&] {
      flush.out = outgoing(state, plan.local, pending.layout.first_file);
      if (plan.dense.bytes > 0)
        flush.dense.resize(static_cast<std::size_t>(capture_bytes(plan.dense)));
    });
    if (plan.dense.bytes > 0) {
      pending.copy.runs = capture_dense(flush.job, state, plan.dense, flush.dense);
    }
  } catch (const Error& error) {
    stages_.completion.give_up(error, &draft, false);
  }
}

// Any thread. The two tasks of a flush.
void Flusher::write(Flush& flush) const {
  auto& pending = *flush.pending;
  const StageTimer timer(pending.figures, trace.get(), Trace::Thread::writer, &StageSeconds::write);
  // The pace limits this draft's writes only; the record and the commit are not slowed down.
  const auto draft = pending.prepared->draft.through(flush.pace);
  if (job.root() && pending.layout.dense_file >= 0) {
    store.remove_untaken(draft, pending.layout.dense_file, pending.layout.data_files);
  }
  write_files(draft, flush.out, &pending.cancelled);
  if (pending.cancelled) return;
  auto& result = pending.result;
  for (const auto& entry : flush.out.entries) {
    result.data_files.insert(entry.slices.front().file);
  }
  result.entries.add(std::move(flush.out.entries));
  if (!pending.copy.runs.empty()) {
    result.entries.add(
        write_runs(draft, pending.plan->dense, pending.copy.runs, pending.layout.dense_file));
  }
  if (!pending.cancelled) stages_.writing.record(pending);
}

void Flusher::work() {
  auto& flush = *flush_;
  flush.pending->handle->idle = false;
  const auto work = [this, &flush] {
    auto& pending = *flush.pending;
    try {
      if (pending.result.merged) {
        const StageTimer timer(pending.figures, trace.get(), Trace::Thread::writer,
                               &StageSeconds::commit);
        stages_.writing.publish(pending);
      } else {
        write(flush);
      }
    } catch (...) {
      pending.failure = std::current_exception();
    }
    become_idle(pending);
  };
  // As in Writing::work_in_background(), an error waits here until ranks agree in advance().
  if (flush.pending->failure) return become_idle(*flush.pending);
  try {
    if (!queue_) queue_ = job.options.async.queue ? job.options.async.queue : thread_queue();
    queue_->run(work);
  } catch (...) {
    flush.pending->failure = std::current_exception();
    become_idle(*flush.pending);
  }
}

// As Completion::advance() for the copy, which is not among the pending saves.
void Flusher::advance(bool wait, bool throws) {
  auto& completion = stages_.completion;
  while (flush_) {
    auto& pending = *flush_->pending;
    if (wait) {
      flush_->pace.hurry();
      pending.handle->idle.wait(false);
    }
    // All ranks move on together, since the next stage sends messages.
    if (any_of(*job.group, !pending.handle->idle)) return;
    const bool was_merged = pending.result.merged;
    const auto step = pending.asked.step;
    try {
      was_merged ? completion.finish(pending) : completion.complete_bytes(pending, flush_->job);
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      end();
      const auto told = stages_.room.make_room_for_next(error, step);
      if (throws) throw Error(told);
      return failed(step, told);
    }
    if (!was_merged) {
      // The commit is rank 0's task; the other ranks stay idle, and the loop asks whether it is
      // done.
      if (job.root()) work();
      continue;
    }
    pending.figures.total_seconds = seconds_since(pending.asked.at);
    completion.enter(pending);
    since_home_ -= flush_->saves_before;
    failed_ = false;
    end();
  }
  if (!wait) return;
  pending_saves.drain();  // this waits for the state file too, which names the checkpoint
  store.history().apply_tidied();
}

void Flusher::flush_now(const tier::LocalSave& save, int saves_before, bool pins) {
  flush_ = plan(save, saves_before);
  flush_->pending->asked.pins = pins;
  work();
  advance(true, true);
}

void Flusher::cancel() {
  advance(false);
  if (!flush_) return;
  auto& pending = *flush_->pending;
  pending.cancelled = true;
  flush_->pace.hurry();
  pending.handle->idle.wait(false);
  // After the merge the index may already have its name, and then the checkpoint counts. So it is
  // completed.
  if (pending.result.merged) return advance(true);
  const auto step = pending.asked.step;
  pending.failure = nullptr;
  const bool gone =
      stages_.completion.withdraw(&pending.prepared->draft, false, false) == Store::Withdrawn::gone;
  end();
  if (gone || !job.root()) return;
  log(LogLevel::warning, cat("step ", step,
                             ", half brought home from the nodes, is left to the "
                             "next owner of ",
                             job.directory.string(), " to judge"));
}

void Flusher::end() {
  nodes_.hold("");
  flush_->out = {};
  pending_saves.retire(std::move(flush_->pending));
  flush_.reset();
}

// Only the first failure is logged, until a flush succeeds.
void Flusher::failed(std::int64_t step, const Error& error) {
  if (std::exchange(failed_, true) || !job.root()) return;
  log(LogLevel::warning,
      cat("step ", step,
          " stays on the nodes; the next one is to go home instead: ", error.what()));
}

}  // namespace cairn
