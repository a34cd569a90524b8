// Opening a directory, and looking into it. The save is in save.cpp, the choice of what is restored
// in restore_steps.cpp.
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "checkpoint/series.hpp"
#include "commit/names.hpp"
#include "commit/sequences.hpp"
#include "contents/contents_reader.hpp"
#include "contents/notes.hpp"
#include "directory/pins.hpp"
#include "job/prefix.hpp"
#include "directory/recovery.hpp"
#include "format/hdf5/lay_out.hpp"
#include "group/collectives.hpp"
#include "io/limited.hpp"
#include "restore/restore.hpp"
#include "save/savers.hpp"

namespace cairn {

namespace {

std::string policy_description(const ManagerOptions& options) {
  return options.policy ? options.policy->description() : ShardByTaskPolicy().description();
}

// Whether this build and these options can save in the format.
void require_format(const ManagerOptions& options) {
  if (options.format == Format::bundle || options.read_only) return;
  hdf5::require_available();
  if (options.savers.empty()) return;
  throw Error(Code::unsupported, "registered savers cannot take part in a save as HDF5",
              "what they write are bundles, whose files become part of the checkpoint",
              "Save in the format of bundles.");
}

// The files that these options ask for.
std::shared_ptr<io::FileSystem> files_of(const ManagerOptions& options) {
  auto files = options.file_system ? options.file_system : io::posix_file_system();
  if (!(options.storage_limit_seconds > 0)) return files;
  return io::limited(std::move(files), options.storage_limit_seconds);
}

// MPI-IO and parallel HDF5 wait for the storage by themselves.
void require_limit(const ManagerOptions& options) {
  if (!(options.storage_limit_seconds >= 0)) {
    throw Error(Code::invalid_argument,
                cat("ManagerOptions::storage_limit_seconds is ", options.storage_limit_seconds), "",
                "Give seconds, or 0 for no limit.");
  }
  if (options.storage_limit_seconds == 0 || options.writer == Writer::posix) return;
  throw Error(Code::unsupported, "a limit on how long storage is waited for takes Writer::posix",
              "MPI-IO and parallel HDF5 wait for the storage by themselves",
              "Leave storage_limit_seconds at 0, or write with Writer::posix.");
}

const char* yes(bool value) { return value ? "true" : "false"; }

const char* word(ReplicaCheck check) {
  return check == ReplicaCheck::none ? "none" : check == ReplicaCheck::all ? "all" : "sample";
}

const char* word(WhenBusy when) {
  return when == WhenBusy::wait ? "wait" : when == WhenBusy::skip ? "skip" : "replace";
}

const char* word(DirectIo how) {
  return how == DirectIo::automatic ? "automatic" : how == DirectIo::on ? "on" : "off";
}

// What ranks must agree on, under the names that programs give it.
std::vector<Setting> settings_of(const ManagerOptions& options, const std::string& name) {
  const auto& keep = options.keep;
  const auto& replicas = options.replicas;
  const auto& interval = options.interval;
  const auto& mtbf = interval.optimal_for;
  return {{"name", name},
          {"max_to_keep", cat(options.max_to_keep)},
          {"format", options.format == Format::hdf5 ? "hdf5" : "bundle"},
          {"overwrite", yes(options.overwrite)},
          {"read_only", yes(options.read_only)},
          {"fall_back", yes(options.fall_back)},
          {"verify_first", yes(options.verify_first)},
          {"keep.every_steps", cat(keep.every_steps)},
          {"keep.every_hours", cat(keep.every_hours)},
          {"keep.best", cat(keep.best)},
          {"keep.larger_is_better", yes(keep.larger_is_better)},
          {"chunk_bytes", cat(options.chunk_bytes)},
          {"object_graph", yes(options.object_graph)},
          {"async.when_busy", word(options.async.when_busy)},
          {"async.throw_failures", yes(options.async.throw_failures)},
          {"atomic_rename", yes(options.atomic_rename)},
          {"recycle", yes(options.recycle)},
          {"direct_io", word(options.direct_io)},
          {"replicas.check", word(replicas.check)},
          {"replicas.sample_of", cat(replicas.sample_of)},
          {"replicas.divergence_is_error", yes(replicas.divergence_is_error)},
          {"interval.steps", cat(interval.steps)},
          {"interval.seconds", cat(interval.seconds)},
          {"interval.optimal_for",
           mtbf ? cat(mtbf->seconds, " s of kind ", static_cast<int>(mtbf->of)) : "none"},
          {"stop", options.stop ? "given" : "none"},
          {"the number of before_save callbacks", cat(options.before_save.size())}};
}

// The same error in words for a program that stands in its own way.
Error of_this_process(const Job& job, const Error& busy) {
  const auto owner = commit::read_owner(*job.files, job.directory);
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  if (!owner || owner->pid != ::getpid() || owner->host != host) return busy;
  return Error(Code::busy, "the checkpoint directory is in use by this very process",
               cat("another CheckpointManager or Checkpoint of it saves under the name '",
                   job.naming.name, "' there"),
               "Use that one, let it go before, save under another name, or open read-only.")
      .at(busy.path());
}

// Parameters that are not stated differ from stated ones, but not from each other.
std::string policy_parameters(const ManagerOptions& options) {
  const auto stated =
      options.policy ? options.policy->parameters() : ShardByTaskPolicy().parameters();
  return stated ? cat("'", *stated, "'") : "none that it states";
}

}  // namespace

Series::Series(std::shared_ptr<Group> group, io::Path directory, commit::Naming naming,
               ManagerOptions options)
    : job{group ? CallGroup::of(std::move(group)) : nullptr, files_of(options),
          checked_directory(directory), std::move(naming), std::move(options)},
      pool(job.options.async.memory ? job.options.async.memory : page_memory()) {
  if (!job.group) throw Error(Code::invalid_argument, "the group of a CheckpointManager is null");
  if (!job.options.trace.empty()) trace = std::make_unique<Trace>(job.rank());
}

void Series::open_directory() {
  Group& group = *job.group;
  const auto& options = job.options;
  std::string parameters;
  weight = rank_weight(group.rank(), group.size());
  together(group, [&] {
    commit::check_checkpoint_name(job.naming.name);
    if (options.chunk_bytes < 4096 || options.chunk_bytes > (std::int64_t{64} << 20)) {
      throw Error(Code::invalid_argument,
                  cat(options_name, "::chunk_bytes is ", options.chunk_bytes),
                  "it must lie between 4096 and 64 MiB");
    }
    if (options.max_to_keep < 0) {
      throw Error(Code::invalid_argument,
                  cat("ManagerOptions::max_to_keep is ", options.max_to_keep), "",
                  "Give a number of checkpoints, or 0 to keep all.");
    }
    if (options.replicas.sample_of < 1) {
      throw Error(Code::invalid_argument,
                  cat("ReplicaOptions::sample_of is ", options.replicas.sample_of),
                  "it must be at least 1");
    }
    if (options.keep.every_steps < 0 || options.keep.best < 0 || !(options.keep.every_hours >= 0)) {
      throw Error(Code::invalid_argument, "a number in ManagerOptions::keep is negative", "",
                  "0 means none.");
    }
    check_interval();
    require_limit(options);
    require_format(options);
    policy = policy_description(options);
    parameters = policy_parameters(options);
    policy_is_known =
        !options.device_of && (!options.policy || options.policy->parameters().has_value());
  });
  settle_nodes(job);
  require_same(group, "the directory", job.directory.string());
  require_same(group, options_name, settings_of(options, job.naming.name));
  require_same(group, "the sharding policy", policy);
  require_savers(group, options.savers);
  require_same(group, "the parameters of the sharding policy", parameters);
  settle_io_ranks(job);
  settle_writer(job);
  together(group, [&] {
    if (!job.root()) return;
    if (options.read_only) {
      if (!io::exists(*job.files, job.directory)) {
        throw Error(Code::not_found, cat("there is no directory ", job.directory.string()),
                    "a read-only manager does not make it", "Check the path.")
            .at(job.directory.string());
      }
      return;
    }
    io::create_directories(*job.files, job.directory);
    auto taking = commit::default_ownership();
    taking.atomic_rename = options.atomic_rename;
    try {
      ownership.emplace(commit::OwnedName::take(job.files, job.directory, job.naming,
                                                options.owner_wait_seconds, taking));
    } catch (const Error& error) {
      if (error.code() == Code::busy) throw of_this_process(job, error);
      throw;
    }
  });
  std::int64_t renames = ownership ? ownership->atomic_rename() : 1;
  group.all_reduce({&renames, 1}, Group::Op::min);
  job.atomic_rename = renames != 0;
  if (options.format == Format::hdf5 && !options.read_only && !job.atomic_rename) {
    throw Error(Code::unsupported, cat("no HDF5 file can be saved in ", job.directory.string()),
                "its commit is a rename, which this directory does without",
                "Save in the format of bundles.")
        .at(job.directory.string());
  }
  Recovered found;
  if (!options.read_only) found = recover(job, ownership ? &ownership->ownership() : nullptr);
  within_reach = std::move(found.within_reach);
  if (job.root() && job.recycles()) {
    try {
      recycling.emplace(job);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("data files are not kept for later saves: ", error.what()));
      job.options.recycle = false;  // this rank alone decides what is kept
    }
  }
  together(group, [&] {
    if (!job.root()) return;
    catalog = scan_catalog(*job.files, job.directory, job.naming);
    for (const auto& entry : catalog) {
      // Each opening begins a block of sequences: it counts as one turn, as each save does.
      const auto turns =
          entry.sequence / commit::sequence_block + entry.sequence % commit::sequence_block;
      replica_turn = std::max(replica_turn, turns);
      if (!entry.pin_damaged) continue;
      log(LogLevel::warning, cat("the pin of step ", entry.step,
                                 " is damaged, and counts: pin it again, or unpin it"));
    }
    if (options.read_only) return;
    begin_sequences(found.undecided);
    refresh_notes(*job.files, job.directory, job.naming, catalog);
    try {
      write_state_file(catalog);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("the state file is not up to date: ", error.what()));
    }
  });
}

void Series::write_state_file(const std::vector<CatalogEntry>& entries) const {
  if (keeps_state_file) update_state_file(*job.files, job.directory, job.naming, entries);
}

const CatalogEntry* Series::find(std::int64_t step) const {
  for (const auto& entry : catalog) {
    if (entry.step == step) return &entry;
  }
  return nullptr;
}

CheckpointManager::CheckpointManager(std::shared_ptr<Group> group, std::filesystem::path directory,
                                     ManagerOptions options)
    : impl_(std::make_unique<Impl>(std::move(group), std::move(directory), options.name, options)) {
  auto& self = *impl_;
  guarded(*self.job.group, "CheckpointManager::CheckpointManager", [&] {
    self.meet();
    self.open_directory();
    together(*self.job.group, [&] {
      self.turns = std::make_unique<Turns>(self.job, self.catalog, [&self] {
        if (self.ownership) self.ownership->check();
      });
    });
    self.calls().describe(cat(" of '", self.job.naming.name, "' in ", self.job.directory.string()));
  });
}

CheckpointManager::~CheckpointManager() = default;
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept = default;

const std::filesystem::path& CheckpointManager::directory() const { return impl_->job.directory; }

CheckpointContents CheckpointManager::open(std::int64_t step) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return guarded(group, "CheckpointManager::open", [&] {
    self.meet();
    self.settle();
    require_same(group, "the step", cat(step));
    return tell_contents(self.job, self.job.prefix(step));
  });
}

std::vector<StepInfo> CheckpointManager::steps() {
  auto& self = *impl_;
  const Job& job = self.job;
  return guarded(*job.group, "CheckpointManager::steps", [&] {
    self.meet();
    self.settle();
    const auto message = from_root(*job.group, [&] {
      if (job.options.read_only) {
        self.catalog = scan_catalog(*job.files, job.directory, job.naming);
      } else {
        self.read_again();
      }
      refresh_pins(*job.files, job.directory, job.naming, self.catalog);
      const auto live = restorable(self.catalog);
      WireWriter writer;
      for (const auto& entry : self.catalog) {
        writer.put(entry.step).put(entry.sequence).put(!live.empty() && live.front() == &entry);
        writer.put(entry.superseded).put(entry.damage).put(entry.pinned);
        writer.put(entry.metric.has_value()).put(entry.metric.value_or(0));
      }
      return writer.take();
    });
    std::vector<StepInfo> infos;
    for (WireReader reader(message); !reader.empty();) {
      StepInfo info;
      info.step = reader.get<std::int64_t>();
      info.sequence = reader.get<std::int64_t>();
      info.newest = reader.get<bool>();
      info.superseded = reader.get<bool>();
      info.damage = reader.get<std::string>();
      info.pinned = reader.get<bool>();
      const bool has_metric = reader.get<bool>();
      const auto metric = reader.get<double>();
      if (has_metric) info.metric = metric;
      infos.push_back(std::move(info));
    }
    return infos;
  });
}

}  // namespace cairn
