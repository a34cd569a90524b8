// The stages of a save that make its bytes durable (save.cpp): write, compare, record; and the
// tasks that do so in the background.
#include "session/save_stages.hpp"

#include <iterator>
#include <utility>

#include "group/collectives.hpp"
#include "io/limited.hpp"
#include "session/save/formats/save_format.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {

namespace {

// Notes the files that this rank alone has written.
void note_files(PendingSave& pending, const std::vector<StoredTensor>& entries) {
  int last = -1;  // entries are sorted by file
  for (const auto& entry : entries) {
    const int file = entry.slices.front().file;
    if (file != std::exchange(last, file)) pending.result.data_files.insert(file);
  }
}

void append(std::vector<StoredTensor>& to, std::vector<StoredTensor> from) {
  if (to.empty()) return to.swap(from);
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

// The handle gets the error at once, before ranks have agreed.
void end_task(const PendingSave& pending) noexcept {
  try {
    if (const auto error = error_of(pending.failure)) pending.handle->fail(*error);
  } catch (...) {  // the call that completes the save reports it
  }
  become_idle(pending);
}

}  // namespace

// Write, compare and record of a blocking save. Bytes are written from the application's memory, or
// sent to the ranks that write them. Checksums of replicas come from writing.
void Writing::write(PendingSave& pending, const RefreshedState& state, bool compares) {
  Group& group = *job.group;
  const auto& writer = writer_of(job);
  auto& plan = *pending.plan;
  const auto& layout = pending.layout;
  auto& [draft, meta] = *pending.prepared;
  auto begun = save_format_of(job).begin(job, state, draft, meta, plan, pending.layout);
  auto runs = write_dense(job, state, plan.dense, layout.dense_file, begun.structure, draft);
  std::vector<StoredTensor> entries;
  if (layout.shard_files > 0) {
    entries = writer.write_with_others(job, state, plan.local, layout, draft);
  }
  // With io ranks, `entries` has what this rank has written for others, in files that only it
  // writes.
  const bool for_others = !job.places.served_by.empty();
  const auto gather_and_record = [&] {
    pending.result.entries.add(std::move(entries));
    pending.result.entries.add(std::move(runs));
    pending.result.entries.add(std::move(begun.entries));
    record(pending);
  };
  const auto checksums = run_and_agree(group, [&, &draft = draft] {
    auto alone = writer.write_alone(job, state, plan.local, layout, draft);
    note_files(pending, alone);
    if (for_others) note_files(pending, entries);
    append(entries, std::move(alone));
    append(entries, write_frozen(pending, state));
    // Without a comparison the record can be left within the same agreement.
    if (!compares) {
      gather_and_record();
      return std::vector<std::uint32_t>();
    }
    // Entries written for other ranks do not have checksums of this rank's own replicas.
    static const std::vector<StoredTensor> none;
    return replica_checksums(state, plan.replicas, plan.local.strings, for_others ? none : entries);
  });
  if (!compares) return;
  plans.compare(state, plan.replicas, checksums, draft.prefix().string());
  run_and_agree(group, gather_and_record);
}

// Writes or shares the files of this rank's frozen tensors, and returns their entries. Always in
// the application's call: most saves share these files, and a copy of the tensors would be the
// largest part of what is copied.
std::vector<StoredTensor> Writing::write_frozen(PendingSave& pending, const RefreshedState& state) {
  const auto& plan = *pending.plan;
  auto& result = pending.result;
  result.frozen =
      frozen.write(job, state, plan.frozen, pending.layout.first_frozen, pending.prepared->draft);
  std::vector<StoredTensor> entries;
  for (const auto& file : result.frozen.files) {
    note_files(pending, file.entries);
    entries.insert(entries.end(), file.entries.begin(), file.entries.end());
  }
  return entries;
}

// Copies the state for an asynchronous save, and compares replicas. If nothing has been made of the
// save yet, ranks exchange no messages except for dense tensors and between io ranks and the ranks
// that they serve. Errors are then kept until ranks agree.
void Writing::copy(PendingSave& pending, const RefreshedState& state, bool compares,
                   StageTimer& timer) {
  auto& plan = *pending.plan;
  const auto copy_dense = [&] {
    if (plan.dense.bytes == 0) return;
    const auto behind =
        static_cast<std::size_t>(plan.capture.layout().shard_bytes - pending.copy.places.left_out);
    const StayingRuns staying(state, plan.dense, pending.asked.until);
    pending.copy.runs =
        capture_dense(job, state, plan.dense, pending.copy.memory.subspan(behind), &staying);
  };
  const auto copy_shards = [&] {
    pending_saves.leave(pending, state);
    pending.copy.sent =
        plan.capture.copy(job, state, plan.local.strings, pending.copy.memory, pending.copy.places);
  };
  if (pending.id) {
    timer.next(&StageSeconds::capture);
    copy_dense();
    try {
      copy_shards();
    } catch (...) {
      current_error();  // throws what must not become an Error
      pending.failure = std::current_exception();
    }
    return;
  }
  auto& [draft, meta] = *pending.prepared;
  pending.result.entries.add(
      save_format_of(job).begin(job, state, draft, meta, plan, pending.layout).entries);
  timer.next(&StageSeconds::capture);
  run_and_agree(*job.group, [&] {
    copy_shards();
    pending.result.entries.add(write_frozen(pending, state));
  });
  copy_dense();
  if (!compares) return;
  const auto checksums = run_and_agree(
      *job.group, [&] { return replica_checksums(state, plan.replicas, plan.local.strings, {}); });
  plans.compare(state, plan.replicas, checksums, draft.prefix().string());
}

// Gives the pending save's next task to the queue, unless the save has failed already. In both
// cases it becomes idle later, and ranks learn of a failure when they agree.
void Writing::work_in_background(PendingSave& pending) {
  pending.handle->idle = false;
  if (pending.failure) {
    pending.copy.let_go();
    return end_task(pending);
  }
  try {
    // The captures must fit into a std::function without an allocation.
    pending_saves.later([this, &pending] {
      const io::Deadline deadline(job.options.write.storage_limit_seconds);
      try {
        work_on(pending);
      } catch (...) {
        pending.failure = std::current_exception();
      }
      end_task(pending);
    });
  } catch (...) {  // kept until ranks agree, since the others wait for this one
    pending.failure = std::current_exception();
    pending.copy.let_go();
    end_task(pending);
  }
}

void Writing::work_on(PendingSave& pending) {
  if (pending.result.merged) {
    const StageTimer timer(pending.figures, trace.get(), Trace::Thread::writer,
                           &StageSeconds::commit);
    publish(pending);
  } else {
    write_copy(pending);
  }
}

// Any thread. Write and record of an asynchronous save.
void Writing::write_copy(PendingSave& pending) const {
  const StageTimer timer(pending.figures, trace.get(), Trace::Thread::writer, &StageSeconds::write);
  // The pool and the application's memory are let go when this task ends, however it ends.
  const auto held = std::move(pending.copy.held);
  const auto window = std::move(pending.copy.window);
  const auto& layout = pending.layout;
  if (!pending.prepared) {
    take_name(pending);
    if (job.root()) {
      store.look_before(pending.prepared->draft, layout.total_bytes);
    }
    if (job.root() || layout.writer >= 0) pending.prepared->draft.make_place();
  }
  const auto& draft = pending.prepared->draft;
  // Several ranks may write a file of dense tensors, so an old one must not be left there.
  if (job.root() && layout.dense_file >= 0) {
    store.remove_untaken(draft, layout.dense_file, layout.data_files);
  }
  const auto& plan = *pending.plan;
  auto& entries = pending.result.entries;
  // All at once: a list that grows would need more memory for a while.
  entries.reserve(entries.packed_bytes() + plan.capture.packed_bytes());
  plan.capture.write(
      draft, {pending.copy.memory, pending.copy.places, pending.handle->window, pending.copy.sent},
      plan.local.strings, pending.cancelled, [&](const StoredTensor& entry) {
        pending.result.data_files.insert(entry.slices.front().file);
        entries.add(entry);
      });
  // Not before: a cancelled write has not come to the window's end.
  if (pending.cancelled) return;
  if (!pending.copy.runs.empty()) {
    entries.add(write_runs(draft, plan.dense, pending.copy.runs, layout.dense_file,
                           &pending.handle->window));
  }
  if (pending.cancelled) return;
  record(pending);
  pending.handle->stage = SaveStage::written;
}

// Any thread. Leaves the part record.
void Writing::record(PendingSave& pending) const {
  const auto& [draft, meta] = *pending.prepared;
  if (draft.leaves_records())
    leave_record(job, draft, meta, pending.layout, pending.result.entries);
}

// Any thread. Gives a draft and a name to a save on whose number ranks have agreed.
void Writing::take_name(PendingSave& pending) const {
  auto id = pending.id.value();
  id.slot = pending.slot;
  Prepared prepared{store.join(id), meta_of_save(job, id, pending.plan->sharding)};
  pending.result.notes.looks = job.options.restore.finite;
  prepared.draft.note_into(pending.result.notes);
  pending.handle->take(prepared.draft.prefix().string());
  pending.prepared = std::move(prepared);
  tell_meta(pending);
}

// Adds what the application says of the checkpoint. Descriptions may be long, so only rank 0, which
// seals it, and the record of one writer have them.
void Writing::tell_meta(PendingSave& pending) const {
  auto& meta = pending.prepared->meta;
  meta.metric = pending.asked.metric;
  meta.thinned = pending.asked.left_out;
  if (pending.asked.application) meta.application = *pending.asked.application;
  if (!job.root() && pending.layout.writer != 0) return;
  meta.descriptions = *pending.asked.descriptions;
  meta.gaps = *pending.plan->gaps;
}

// Rank 0, any thread.
void Writing::publish(PendingSave& pending) {
  pending.result.index = store.publish(*pending.prepared, pending.layout.data_files,
                                       std::move(pending.result.joined), pending.result.replaced);
}

}  // namespace cairn
