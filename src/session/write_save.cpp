// The stages of a save that make its bytes durable (save.cpp): write, compare, record; and what
// tasks do in the background.
#include "session/save_stages.hpp"

#include <iterator>
#include <utility>

#include "group/collectives.hpp"
#include "io/limited.hpp"
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

void append(std::vector<StoredTensor>& to, std::vector<StoredTensor>& from) {
  if (to.empty()) return to.swap(from);
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

// Whoever has the handle knows of a failure before ranks have met.
void end_task(const Flight& flight) noexcept {
  try {
    if (const auto error = error_of(flight.failure)) flight.handle->fail(*error);
  } catch (...) {  // for those who land it
  }
  become_idle(flight);
}

}  // namespace

// Write, compare and record of a blocking save: bytes go from the application's memory, over
// other ranks where these write them. Checksums of replicas come from writing.
void Writing::write(Flight& flight, const SeenState& state, bool compares) {
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
void Writing::write_frozen(Flight& flight, const SeenState& state) {
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
void Writing::copy(Flight& flight, const SeenState& state, bool compares, Laps& laps) {
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
  flight.result.entries =
      save_format_of(job).begin(job, state, draft, meta, plan, flight.layout).entries;
  laps.next(&StageSeconds::capture);
  together(*job.group, [&] {
    copy_shards();
    write_frozen(flight, state);
  });
  copy_dense();
  if (!compares) return;
  const auto checksums = together(
      *job.group, [&] { return replica_checksums(state, plan.replicas, plan.local.strings, {}); });
  plans.compare(state, plan.replicas, checksums, draft.prefix().string());
}

// Hands the flight's next task to the queue, unless it has failed already: either way it becomes
// idle, and ranks find out together.
void Writing::work_in_background(Flight& flight) {
  flight.handle->idle = false;
  if (flight.failure) {
    flight.copy.held = {};
    return end_task(flight);
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
      end_task(flight);
    });
  } catch (...) {  // not taken: other ranks wait for this one's verdict
    flight.failure = std::current_exception();
    flight.copy.held = {};
    end_task(flight);
  }
}

void Writing::work_on(Flight& flight) {
  if (flight.result.merged) {
    const Laps laps(flight.figures, trace.get(), Trace::Thread::writer, &StageSeconds::commit);
    publish(flight);
  } else {
    write_copy(flight);
  }
}

// Any thread. Write and record of an asynchronous save.
void Writing::write_copy(Flight& flight) const {
  const Laps laps(flight.figures, trace.get(), Trace::Thread::writer, &StageSeconds::write);
  const auto held = std::move(flight.copy.held);
  const auto& layout = flight.layout;
  if (!flight.prepared) {
    take_name(flight);
    if (job.root()) {
      store.look_before(flight.prepared->draft, layout.total_bytes);
    }
    if (job.root() || layout.writer >= 0) flight.prepared->draft.make_place();
  }
  const auto& draft = flight.prepared->draft;
  // Several ranks may write a file of dense tensors, which is made anew.
  if (job.root() && layout.dense_file >= 0) {
    store.remove_untaken(draft, layout.dense_file, layout.data_files);
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
void Writing::record(Flight& flight) const {
  const auto& [draft, meta] = *flight.prepared;
  if (draft.leaves_records()) leave_record(job, draft, meta, flight.layout, flight.result.entries);
}

// Any thread: a save on whose numbers ranks have agreed gets its name.
void Writing::take_name(Flight& flight) const {
  auto id = flight.id.value();
  id.slot = flight.slot;
  Prepared prepared{store.join(id), meta_of_save(job, id, flight.plan->sharding)};
  flight.result.notes.looks = job.options.restore.finite;
  prepared.draft.note_into(flight.result.notes);
  flight.handle->take(prepared.draft.prefix().string());
  flight.prepared = std::move(prepared);
  tell_meta(flight);
}

// What the application says of the checkpoint. Descriptions may be long: who seals it has them, and
// one of the records.
void Writing::tell_meta(Flight& flight) const {
  auto& meta = flight.prepared->meta;
  meta.metric = flight.asked.metric;
  meta.thinned = flight.asked.left_out;
  if (flight.asked.application) meta.application = *flight.asked.application;
  if (!job.root() && flight.layout.writer != 0) return;
  meta.descriptions = *flight.asked.descriptions;
  meta.gaps = *flight.plan->gaps;
}

// Rank 0, any thread.
void Writing::publish(Flight& flight) {
  flight.result.index = store.publish(*flight.prepared, flight.layout.data_files,
                                      std::move(flight.result.joined), flight.result.replaced);
}

}  // namespace cairn
