// A save, in the order in which it happens: Series::save is the table of contents.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "checkpoint/objects.hpp"
#include "checkpoint/series.hpp"
#include "commit/names.hpp"
#include "commit/recycled.hpp"
#include "contents/hdf5_reader.hpp"
#include "contents/lost.hpp"
#include "contents/notes.hpp"
#include "contents/seal.hpp"
#include "directory/pins.hpp"
#include "directory/recovery.hpp"
#include "directory/retention.hpp"
#include "group/collectives.hpp"
#include "io/limited.hpp"
#include "save/resolve.hpp"
#include "save/save_plan.hpp"
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

}  // namespace

void Series::require_writable(const char* what) const {
  if (!job.options.read_only) return;
  throw Error(Code::invalid_argument, cat("a read-only manager cannot ", what),
              cat("it does not own ", job.directory.string()),
              "Make it without ManagerOptions::read_only.");
}

void Series::require_not_pinned(const CatalogEntry* there) const {
  const bool sound = there && (there->damage.empty() || there->unreadable);
  if (!sound || !is_pinned(*job.files, job.directory, job.naming, *there)) return;
  throw Error(Code::already_exists,
              cat("step ", there->step, " in ", job.directory.string(), " is pinned"),
              "a pinned checkpoint is not replaced", "Unpin it, or save another step.")
      .at(job.prefix(there->step).string());
}

void Series::require_free(std::int64_t step, std::int64_t bytes) const {
  constexpr std::int64_t slack_bytes = std::int64_t{4} << 20;  // index, records, metadata
  const auto free = job.files->free_bytes(job.directory);
  if (free >= bytes + slack_bytes) return;
  const auto text = [](std::int64_t of) { return bytes_text(static_cast<double>(of)); };
  throw Error(Code::no_space,
              cat("step ", step, " needs ", text(bytes), ", and ", text(slack_bytes),
                  " for its index, records and metadata, in ", job.directory.string(), ", where ",
                  text(free), " are free"),
              "nothing was written", "Free space, or keep fewer checkpoints (max_to_keep).")
      .at(job.directory.string());
}

// Rank 0: whether this step may be saved, under which number of files, and as which commit.
Series::Begun Series::begin(std::int64_t step, const FileLayout& layout) {
  const auto& options = job.options;
  look_again();
  require_sequence(step);
  const auto* there = find(step);
  require_not_pinned(there);
  const bool hdf5 = options.format == Format::hdf5;
  const auto one_file = commit::hdf5_path(job.prefix(step));
  if (hdf5 && job.files->status(one_file) && !was_own_hdf5(*job.files, job.prefix(step))) {
    throw Error(Code::already_exists, cat(one_file.string(), " is there"),
                "Cairn did not write it, and does not replace it",
                "Move it away, or save another step.")
        .at(one_file.string());
  }
  const bool left_behind =
      there && ((!there->damage.empty() && !there->unreadable) || there->superseded ||
                there->volatile_commit || (restored_step && step > *restored_step));
  if (there && !left_behind && !options.overwrite) {
    throw Error(
        Code::already_exists, cat("step ", step, " exists in ", job.directory.string()),
        "it is whole and nothing has superseded it",
        cat("Save another step, use another directory, or set ", options_name, "::overwrite."))
        .at(job.prefix(step).string());
  }
  if (queue) queue->drain();  // a tidying may still be filling what is looked at here
  const auto recycled = job.recycles() ? commit::trim_recycled(*job.files, job.directory,
                                                               job.naming, layout.data_files)
                                       : 0;
  recycled_bytes = -1;
  require_free(step, layout.total_bytes - recycled);
  commit::Transaction save{job.directory,         job.naming,        step, commit::new_uuid(),
                           layout.data_files + 1, !job.atomic_rename};
  save.hdf5 = hdf5;
  if (hdf5) save.num_files = 1;
  commit::avoid_counts_in_use(*job.files, save);
  // Before the question whether the directory is ours: a number that was taken after another owner
  // had come would be higher than all of that owner's.
  const auto sequence = next_sequence();
  ownership->check();
  if (unwithdrawn) {
    commit::abandon(*job.files, *unwithdrawn, ownership->ownership());
    unwithdrawn.reset();
  }
  if (save.direct) put_back_undecided(job, step);
  commit::begin(*job.files, save);
  return {std::move(save), sequence};
}

// A tool that stores a checkpoint again makes no progress: nothing that is there may be superseded
// by it, and what is known of the save stays known. It takes the place of what it replaces, or else
// the one that it had.
void Series::stand_for_origin(CheckpointMeta& meta) const {
  const auto* replaced = find(meta.step);
  if (replaced && replaced->sequence > 0) {
    meta.sequence = replaced->sequence;
    meta.parent = replaced->parent;
  } else if (origin->sequence > 0) {
    meta.sequence = origin->sequence;
    meta.parent = origin->parent;
  } else {  // behind all others
    meta.parent = meta.sequence > 1 ? meta.sequence - 1 : -1;
  }
  if (origin->uuid.empty()) return;
  if (!job.naming.numbered) meta.step = origin->step;
  meta.wall_time_seconds = origin->wall_time_seconds;
  meta.ranks = origin->ranks;
  meta.savers = origin->savers;
  meta.metric = origin->metric;
}

// Collective.
Prepared Series::prepare(std::int64_t step, const FileLayout& layout) {
  Begun begun;  // rank 0
  const auto message = from_root(*job.group, [&] {
    begun = begin(step, layout);
    const auto& [save, sequence] = begun;
    return WireWriter()
        .put(save.uuid)
        .put(save.num_files)
        .put(sequence)
        .put(flights.empty() ? head : flights.back()->sequence)
        .put(now_seconds())
        .take();
  });
  WireReader reader(message);
  auto uuid = reader.get<std::string>();
  const auto num_files = reader.get<int>();
  const auto sequence = reader.get<std::int64_t>();
  const auto parent = reader.get<std::int64_t>();
  auto prepared =
      prepared_of(step, std::move(uuid), num_files, sequence, parent, reader.get<double>());
  prepared.save.replaces = std::move(begun.save.replaces);
  prepared.save.looked = begun.save.looked;
  return prepared;
}

Prepared Series::prepared_of(std::int64_t step, std::string uuid, int num_files,
                             std::int64_t sequence, std::int64_t parent, double time) const {
  Prepared prepared;
  prepared.save = {job.directory, job.naming, step, std::move(uuid), num_files};
  prepared.save.direct = !job.atomic_rename;
  prepared.save.hdf5 = job.options.format == Format::hdf5;
  prepared.save.recycle = job.recycles();
  prepared.save.direct_io = job.options.direct_io;
  prepared.meta.step = step;
  if (job.naming.numbered) prepared.meta.name = job.naming.name;
  prepared.meta.sequence = sequence;
  prepared.meta.parent = parent;
  prepared.meta.wall_time_seconds = time;
  prepared.meta.version = CAIRN_VERSION;
  prepared.meta.ranks = job.group->size();
  prepared.meta.policy = policy;
  prepared.meta.uuid = prepared.save.uuid;
  return prepared;
}

// Collective, after all ranks have failed alike. Whether nobody will ever roll the save forward.
Series::Withdrawn Series::withdraw(const commit::Transaction& save, bool committed) {
  auto done = static_cast<std::int64_t>(Withdrawn::gone);
  if (job.root() && !committed) {
    bool ours = true;
    try {
      // Whoever owns the directory now may have completed this save.
      try {
        ownership->check();
      } catch (const Error& error) {
        if (error.code() != Code::busy) throw;
        ours = false;
      }
      if (ours) commit::abandon(*job.files, save, ownership->ownership());
      if (!ours) done = static_cast<std::int64_t>(Withdrawn::not_ours);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("while removing what a failed save left: ", error.what()));
      unwithdrawn = save;
      done = static_cast<std::int64_t>(Withdrawn::stays);
    }
  }
  job.group->all_reduce({&done, 1}, Group::Op::max);
  return static_cast<Withdrawn>(done);
}

// Rank 0, when the checkpoint counts.
void Series::after_commit(const Prepared& prepared, bool volatile_commit,
                          const std::optional<io::FileId>& index) {
  std::erase_if(catalog, [&](const auto& entry) { return entry.step == prepared.save.step; });
  CatalogEntry entry;
  entry.step = prepared.save.step;
  entry.format = job.options.format;
  entry.sequence = prepared.meta.sequence;
  entry.wall_time_seconds = prepared.meta.wall_time_seconds;
  entry.num_files = prepared.save.num_files;
  entry.ranks = prepared.meta.ranks;
  entry.parent = prepared.meta.parent;
  entry.identity = prepared.meta.uuid;
  entry.file = index;
  entry.metric = prepared.meta.metric;
  entry.ours = true;
  entry.volatile_commit = volatile_commit;
  catalog.push_back(std::move(entry));
  mark_superseded(catalog);
  restored_step.reset();
  unwithdrawn.reset();
  head = prepared.meta.sequence;
}

// Rank 0, step 7; any thread. The checkpoint counts already: what fails here is said, not thrown.
void Series::tell_state_file(std::int64_t step, const std::vector<CatalogEntry>& entries) const {
  try {
    ownership->check();
    // As it will be after step 8, which has no need to write it again.
    write_state_file(after_retention(*job.files, job.directory, job.naming, entries,
                                     job.options.max_to_keep, job.options.keep));
  } catch (const Error& error) {
    log(LogLevel::warning,
        cat("step ", step, " is saved, but the state file is not: ", error.what()));
  }
}

// Rank 0, step 8; any thread.
void Series::tidy(const commit::Transaction& save, std::vector<CatalogEntry>& entries) const {
  try {
    // A foreign PREFIX.h5 beside a bundle is none of our business.
    const bool other_format = save.hdf5 || was_own_hdf5(*job.files, save.prefix());
    commit::clean_up(*job.files, save, ownership->ownership(), other_format);
    note_saved(*job.files, save.prefix(), job.naming.numbered, job.options.format, save.uuid);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while tidying up after a save: ", error.what()));
  }
  try {
    apply_retention(*job.files, job.directory, job.naming, entries, job.options.max_to_keep,
                    job.options.keep, ownership->ownership(), job.recycles());
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while removing old checkpoints: ", error.what()));
  }
}

// Callbacks may do what ranks do together: before them ranks must know that they are in one call.
void Series::meet_for_save() const {
  if (!job.options.before_save.empty() || job.options.object_graph) meet();
}

void Series::call_before_save(std::int64_t step) const {
  const auto& callbacks = job.options.before_save;
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

// Collective.
void Series::require_step(std::int64_t step, const SaveOptions& options) const {
  require_same(*job.group, "the step", cat(step));
  require_same(*job.group, "the metric", metric_text(options.metric));
  if (step >= 0) return;
  throw Error(Code::invalid_argument, cat("step ", step, " is negative"), "",
              "Steps are numbered from 0.");
}

std::optional<CatalogEntry> Series::copy_of(std::int64_t step) const {
  const auto* there = find(step);
  return there ? std::optional(*there) : std::nullopt;
}

ReplicaTurn Series::turn() const {
  const auto& replicas = job.options.replicas;
  const auto check = replicas_suspect && replicas.check == ReplicaCheck::sample ? ReplicaCheck::all
                                                                                : replicas.check;
  return {check, replicas.sample_of, replica_turn};
}

// Collective.
void Series::compare(const State& state, const ReplicaPlan& plan,
                     const std::vector<std::uint32_t>& checksums, const Prepared& prepared) {
  replicas_suspect = job.options.replicas.divergence_is_error;
  compare_replicas(job, state, plan, checksums, prepared.save.prefix().string());
  replicas_suspect = false;
}

// Rank 0, steps 4 to 6; any thread. `there` is what the catalog has of this step.
std::optional<io::FileId> Series::publish(const Prepared& prepared, const FileLayout& layout,
                                          std::vector<StoredTensor> tensors,
                                          const std::optional<CatalogEntry>& there) const {
  Sealed sealed;
  std::vector<commit::Patch> patches;
  if (prepared.save.hdf5) {
    patches = seal_hdf5(*job.files, prepared.save, std::move(tensors), prepared.meta.statistics);
  } else {
    sealed =
        seal_index(std::move(tensors), prepared.meta, layout.data_files, prepared.save.num_files);
  }
  ownership->check();
  // It may have been pinned meanwhile; nobody pins or unpins while it is replaced.
  std::optional<PinLock> pins;
  if (there) {
    pins = PinLock::take(*job.files, job.directory, job.options.owner_wait_seconds);
    require_not_pinned(&*there);
  }
  const auto is_committed = [&](const auto& save) { return holds(*job.files, save); };
  if (prepared.save.hdf5) {
    return commit::publish_hdf5(*job.files, prepared.save, patches, is_committed);
  }
  return commit::publish(*job.files, prepared.save, sealed.index, sealed.own_files, is_committed);
}

// Collective, after all ranks have failed alike: nothing of the save stays, if that can be.
void Series::give_up(const Error& error, const commit::Transaction& save, bool committed) {
  if (error.code() == Code::communication || error.code() == Code::durability_unknown) {
    throw Error(error);
  }
  const auto withdrawn = withdraw(save, committed);
  if (withdrawn == Withdrawn::gone || error.code() == Code::busy) throw Error(error);
  if (withdrawn == Withdrawn::not_ours) {
    throw Error(
        Code::busy, "the checkpoint directory is no longer owned by this job", error.what(),
        "This job commits and removes nothing here any more; whether its last save counts is "
        "for the present owner to say (cairn ls). Let one job at a time save here.")
        .at(job.directory.string());
  }
  throw Error(error.code(), error.problem(), error.reason(),
              cat(error.way_out(), error.way_out().empty() ? "" : " ",
                  "The failed save could not be removed either: until another save commits, a "
                  "restart may still complete it."))
      .at(error.path())
      .of_tensor(error.tensor())
      .on_rank(error.rank());
}

std::string Series::save(std::int64_t step, const State& given, const SaveOptions& options,
                         const SaveCall& call) {
  Group& group = *job.group;
  const io::Deadline deadline(job.options.storage_limit_seconds);
  require_writable("save");
  SaveStatistics figures;
  figures.step = step;
  figures.blocking_because = call.why_blocking;
  Laps laps(figures, trace.get(), Trace::Thread::caller, &StageSeconds::wait, call.at);
  settle();
  throw_earlier_failure();
  Attempt attempt(ledger);
  laps.next(&StageSeconds::plan);
  PlanSum sum;
  const Look look(given);
  const bool again = reuse_plan(step, look, options, false, sum);
  std::optional<State> resolved;
  if (!again) {
    require_step(step, options);
    resolved = resolve(group, look);
  }
  const State& state = resolved ? *resolved : given;
  const auto plan = again ? cached->plan : new_plan(given, state);
  const auto& replicas = plan->replicas;
  const auto& local = plan->local;
  auto& dense = plan->dense;
  auto layout = plan->layout;
  const bool compares = replicas.any && !again;  // a plan is used again where replicas agree
  const bool hdf5 = job.options.format == Format::hdf5;
  auto prepared = prepare(step, layout);
  prepared.meta.metric = options.metric;
  if (origin) stand_for_origin(prepared.meta);
  commit::FileCounts counts;
  prepared.save.counts = &counts;
  figures.plan_reused = again;
  figures.replica_bytes = plan->replica_bytes;
  laps.next(&StageSeconds::write);
  bool committed = false;  // rank 0
  try {
    std::vector<commit::Patch> structure;  // rank 0
    auto others =
        hdf5 ? make_hdf5(job, prepared.save, prepared.meta, plan->gathered, dense, structure)
             : run_savers(job, state, prepared.save, layout, prepared.meta);
    auto runs = write_dense(job, state, dense, layout.dense_file, prepared.save);
    if (job.writes_datasets() && dense.bytes > 0) {
      together(group, [&] {
        if (job.root()) put_back_structure(*job.files, prepared.save, structure);
      });
    }
    const bool forwards = !hdf5 && !job.served_by.empty();
    std::vector<StoredTensor> entries;
    if (forwards) entries = forward_shards(job, state, local, layout, prepared.save);
    if (job.shares_files() && !hdf5)
      entries = share_files(job, state, local, layout, prepared.save);
    const auto finish = [&] {
      std::move(runs.begin(), runs.end(), std::back_inserter(entries));
      std::move(others.begin(), others.end(), std::back_inserter(entries));
      leave_record(job, prepared.save, prepared.meta, layout, entries);
    };
    const auto checksums = together(group, [&] {
      if (!forwards && !job.shares_files()) {
        entries = write_shards(job, state, local, layout, prepared.save);
      }
      if (!compares) {
        finish();
        return std::vector<std::uint32_t>();
      }
      // What was written for others says nothing of this rank's own replicas.
      static const std::vector<StoredTensor> none;
      return replica_checksums(state, replicas, local.strings, forwards ? none : entries);
    });
    if (compares) {
      compare(state, replicas, checksums, prepared);
      together(group, finish);
    }
    ++replica_turn;
    figures.bytes = bytes_of(entries);
    figures.recycled_files = counts.recycled;
    laps.next(&StageSeconds::merge);
    auto tensors = merge_entries(group, std::move(entries), &figures);
    laps.next(&StageSeconds::commit);
    together(group, [&] {
      if (!job.root()) return;
      figures.files = layout.data_files;
      figures.total_seconds = figures.blocked_seconds = seconds_since(call.at);
      prepared.meta.statistics = figures;
      std::optional<io::FileId> index;
      try {
        index = publish(prepared, layout, std::move(tensors), copy_of(step));
        committed = true;
      } catch (const Error& error) {
        committed = error.code() == Code::durability_unknown;
        if (committed) after_commit(prepared, true, std::nullopt);
        if (committed) tell_state_file(step, catalog);
        throw;
      }
      after_commit(prepared, false, index);
      tell_state_file(step, catalog);
    });
  } catch (const Error& error) {
    give_up(error, prepared.save, committed);
  }
  laps.next(&StageSeconds::tidy);
  figures.total_seconds = seconds_since(call.at);
  if (job.root()) tidy(prepared.save, catalog);
  laps.end();
  attempt.done();
  figures.blocked_seconds = seconds_since(call.at);
  enter(prepared.meta.sequence, figures);
  return prepared.save.prefix().string();
}

std::string CheckpointManager::save(std::int64_t step, const State& state,
                                    const SaveOptions& options) {
  const Job& job = impl_->job;
  return guarded(*job.group, "CheckpointManager::save", [&] {
    impl_->meet_for_save();
    impl_->clear_way_for_last_save();
    impl_->call_before_save(step);
    auto prefix = job.options.object_graph
                      ? impl_->save(step, with_object_graph(*job.group, state, step), options)
                      : impl_->save(step, state, options);
    impl_->turns->saved(step, false);
    return prefix;
  });
}

}  // namespace cairn
