// Checkpoints on the nodes go home while the application computes:
//
//   begin     after a save on the nodes, when one is due: the plan, the temp directory; dense
//             tensors are put together
//   write     in a queue of its own, at the pace that was asked for: from the nodes' files, whose
//             checksums are compared, then a part record
//   advance   in calls that save, poll or wait: all ranks' records are there: verdict, merge
//   commit    in the queue, on rank 0
//   advance   the index is there: verdict; then tidy, as after an asynchronous save
//
// It keeps number, parent and time of the save on the nodes, so that what was saved there meanwhile
// stays newer. Nobody waits for it but wait(), and it gives way to whatever else goes home. From
// the end of all ranks' records on, a restart completes it.
#include "session/nodes/flush.hpp"

#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/save/formats/save_format.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {
namespace {

// Io ranks have the parts of their nodes, and others have nothing: so each rank writes for itself.
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
  // It is on the nodes still.
  stages_.landing.tell_unfinished(*flush_->flight, LogLevel::warning,
                                  "the way home from the nodes");
  try {
    flights.add(std::move(flush_->flight));
  } catch (...) {  // then the engine's end removes it
  }
}

bool Flusher::is_due() const {
  const auto& tier = job.options.tier;
  return tier.flush_bytes_per_second > 0 && tier.home_every > 0 && !flush_ && flights.empty() &&
         since_home_ >= tier.home_every;
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

std::unique_ptr<Flush> Flusher::plan(tier::LocalSave save, int saves_before) {
  constexpr auto readers = tier::Tier::Readers::io_ranks;
  auto made = together(*job.group, [&] {
    return std::make_unique<Flush>(
        job, static_cast<double>(job.options.tier.flush_bytes_per_second) / nodes_.count(readers));
  });
  auto& flush = *made;
  flush.saves_before = saves_before;
  flush.from = nodes_.gather(save, readers);
  const auto& origin = flush.from->meta();
  Plans plan_of(flush.job);
  plan_of.begin(0);
  SeenState seen(flush.from->state());
  auto planned = plan_of.make_anew(seen, {}, flush.job.sharding);
  flush.state.emplace(std::move(planned.resolved ? *planned.resolved : seen));
  SaveCall call;
  call.way = call.at;
  flush.flight = flights.make(origin.step, true, call);
  auto& flight = *flush.flight;
  flight.asked.is_flush = true;
  flight.asked.metric = origin.metric;
  flight.asked.application = origin.application;
  flight.asked.descriptions = planned.descriptions;
  flight.plan = std::move(planned.plan);
  flight.layout = flight.plan->layout;
  flight.sequence = origin.sequence;
  prepare(flush);
  nodes_.hold(save.map.uuid);
  flight.figures.blocked_seconds = seconds_since(call.at);
  return made;
}

// Prepares the save, and puts together what is of several ranks.
void Flusher::prepare(Flush& flush) {
  Group& group = *job.group;
  auto& flight = *flush.flight;
  const auto& state = *flush.state;
  const auto& plan = *flight.plan;
  const auto& origin = flush.from->meta();
  // A checkpoint of this step that is at home is an older one: it may be overwritten.
  flight.prepared.emplace(stages_.planning.prepare(flight, true, true, &origin));
  auto& [draft, meta] = *flight.prepared;
  meta.wall_time_seconds = origin.wall_time_seconds;
  try {
    stages_.writing.tell_meta(flight);
    draft.note_into(flight.result.notes);
    flight.result.entries = save_format_of(flush.job)
                                .begin(flush.job, state, draft, meta, *flight.plan, flight.layout)
                                .entries;
    together(group, [&] {
      flush.out = outgoing(state, plan.local, flight.layout.first_file);
      if (plan.dense.bytes > 0)
        flush.dense.resize(static_cast<std::size_t>(capture_bytes(plan.dense)));
    });
    if (plan.dense.bytes > 0) {
      flight.copy.runs = capture_dense(flush.job, state, plan.dense, flush.dense);
    }
  } catch (const Error& error) {
    stages_.landing.give_up(error, &draft, false);
  }
}

// Any thread: the two tasks of a flush.
void Flusher::write(Flush& flush) const {
  auto& flight = *flush.flight;
  const Laps laps(flight.figures, trace.get(), Trace::Thread::writer, &StageSeconds::write);
  const auto draft = flight.prepared->draft.through(flush.pace);
  if (job.root() && flight.layout.dense_file >= 0) {
    store.remove_untaken(draft, flight.layout.dense_file, flight.layout.data_files);
  }
  write_files(draft, flush.out, &flight.cancelled);
  if (flight.cancelled) return;
  auto& result = flight.result;
  for (auto& entry : flush.out.entries) {
    result.data_files.insert(entry.slices.front().file);
    result.entries.push_back(std::move(entry));
  }
  if (!flight.copy.runs.empty()) {
    auto runs = write_runs(draft, flight.plan->dense, flight.copy.runs, flight.layout.dense_file);
    for (auto& one : runs) result.entries.push_back(std::move(one));
  }
  if (!flight.cancelled) stages_.writing.record(flight);
}

void Flusher::work() {
  auto& flush = *flush_;
  flush.flight->handle->idle = false;
  const auto work = [this, &flush] {
    auto& flight = *flush.flight;
    try {
      if (flight.result.merged) {
        const Laps laps(flight.figures, trace.get(), Trace::Thread::writer, &StageSeconds::commit);
        stages_.writing.publish(flight);
      } else {
        write(flush);
      }
    } catch (...) {
      flight.failure = std::current_exception();
    }
    become_idle(flight);
  };
  if (flush.flight->failure) return become_idle(*flush.flight);
  try {
    if (!queue_) queue_ = job.options.async.queue ? job.options.async.queue : thread_queue();
    queue_->run(work);
  } catch (...) {
    flush.flight->failure = std::current_exception();
    become_idle(*flush.flight);
  }
}

void Flusher::advance(bool wait, bool throws) {
  auto& landing = stages_.landing;
  while (flush_) {
    auto& flight = *flush_->flight;
    if (wait) {
      flush_->pace.hurry();
      flight.handle->idle.wait(false);
    }
    if (any_of(*job.group, !flight.handle->idle)) return;
    const bool was_merged = flight.result.merged;
    const auto step = flight.asked.step;
    try {
      was_merged ? landing.finish(flight) : landing.land_bytes(flight, flush_->job);
    } catch (const Error& error) {
      if (error.code() == Code::communication) throw;
      end();
      const auto told = stages_.room.make_room_for_next(error, step);
      if (throws) throw Error(told);
      return failed(step, told);
    }
    if (!was_merged) {
      if (job.root()) work();
      continue;
    }
    flight.figures.total_seconds = seconds_since(flight.asked.at);
    landing.enter(flight);
    since_home_ -= flush_->saves_before;
    failed_ = false;
    end();
  }
  if (!wait) return;
  flights.drain();  // the state file, too, names what has come
  store.history().apply_tidied();
}

void Flusher::flush_now(const tier::LocalSave& save, int saves_before, bool pins) {
  flush_ = plan(save, saves_before);
  flush_->flight->asked.pins = pins;
  work();
  advance(true, true);
}

void Flusher::cancel() {
  advance(false);
  if (!flush_) return;
  auto& flight = *flush_->flight;
  flight.cancelled = true;
  flush_->pace.hurry();
  flight.handle->idle.wait(false);
  // Once merged, the index may have its name by now, and the save counts: so it is brought to its
  // end.
  if (flight.result.merged) return advance(true);
  const auto step = flight.asked.step;
  flight.failure = nullptr;
  const bool gone =
      stages_.landing.withdraw(&flight.prepared->draft, false, false) == Store::Withdrawn::gone;
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
  flights.retire(std::move(flush_->flight));
  flush_.reset();
}

// Failures are logged once, until a flush has succeeded.
void Flusher::failed(std::int64_t step, const Error& error) {
  if (std::exchange(failed_, true) || !job.root()) return;
  log(LogLevel::warning,
      cat("step ", step,
          " stays on the nodes; the next one is to go home instead: ", error.what()));
}

}  // namespace cairn
