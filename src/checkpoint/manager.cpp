// The whole of a save and of a restore, in the order in which they happen.
#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "checkpoint/catalog.hpp"
#include "checkpoint/contents_reader.hpp"
#include "checkpoint/recovery.hpp"
#include "checkpoint/restore.hpp"
#include "checkpoint/save_steps.hpp"
#include "commit/names.hpp"
#include "commit/ownership.hpp"
#include "group/collectives.hpp"

namespace cairn {

#ifndef CAIRN_VERSION
#define CAIRN_VERSION "unknown"
#endif

io::Path Job::prefix(std::int64_t step) const {
  return directory / commit::prefix_name(options.name, step);
}

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string policy_description(const ManagerOptions& options) {
  return options.policy ? options.policy->description() : ShardByTaskPolicy().description();
}

// A damaged checkpoint can be passed over; a state that does not fit it cannot.
bool is_damage(const Error& error) {
  return error.code() == Code::data_loss || error.code() == Code::io ||
         (error.code() == Code::not_found && error.tensor().empty());
}

// After a failed collective the ranks cannot agree on anything: end the job rather than hang.
template <class F>
auto guarded(Group& group, F&& function) {
  try {
    return function();
  } catch (const Error& error) {
    if (error.code() == Code::communication) group.abort(error.what());
    throw;
  }
}

}  // namespace

struct CheckpointManager::Impl {
  Job job;
  // Rank 0 only.
  std::optional<commit::Ownership> ownership;
  std::vector<CatalogEntry> catalog;
  std::optional<std::int64_t> restored_step;

  Impl(std::shared_ptr<Group> group, io::Path directory, ManagerOptions options)
      : job{std::move(group), options.file_system ? options.file_system : io::posix_file_system(),
            std::move(directory), std::move(options)} {
    if (!job.group) throw Error(Code::invalid_argument, "the group of a CheckpointManager is null");
  }

  void open_directory();
  void require_writable() const;

  struct Prepared {
    commit::Transaction save;
    CheckpointMeta meta;
  };
  Prepared prepare(std::int64_t step, const FileLayout&);
  commit::Transaction new_transaction(std::int64_t step, const FileLayout&);
  void abandon(const commit::Transaction&);
  void after_commit(const Prepared&);
  void collect(const commit::Transaction&);

  CheckpointContents tell_contents(std::int64_t step);
  RestoreReport restore_step(std::int64_t step, State&);
  void remember_damage(std::int64_t step, const Error&);
  const CatalogEntry* find(std::int64_t step) const;
};

void CheckpointManager::Impl::open_directory() {
  Group& group = *job.group;
  const auto& options = job.options;
  together(group, [&] {
    commit::check_checkpoint_name(options.name);
    if (options.chunk_bytes < 4096 || options.chunk_bytes > (std::int64_t{64} << 20)) {
      throw Error(Code::invalid_argument,
                  cat("ManagerOptions::chunk_bytes is ", options.chunk_bytes),
                  "it must lie between 4096 and 64 MiB");
    }
    if (options.max_to_keep < 0) {
      throw Error(Code::invalid_argument,
                  cat("ManagerOptions::max_to_keep is ", options.max_to_keep), "",
                  "Give a number of checkpoints, or 0 to keep all.");
    }
  });
  require_same(group, "the manager's options",
               cat("name=", options.name, " max_to_keep=", options.max_to_keep, " overwrite=",
                   options.overwrite, " read_only=", options.read_only, " fall_back=",
                   options.fall_back, " verify_first=", options.verify_first, " chunk_bytes=",
                   options.chunk_bytes, " policy=", policy_description(options)));
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
    ownership.emplace(
        commit::Ownership::take(job.files, job.directory, options.owner_wait_seconds));
  });
  if (!options.read_only) recover(job);
  together(group, [&] {
    if (!job.root()) return;
    catalog = scan_catalog(*job.files, job.directory, options.name);
    if (!options.read_only) update_state_file(*job.files, job.directory, options.name, catalog);
  });
}

void CheckpointManager::Impl::require_writable() const {
  if (!job.options.read_only) return;
  throw Error(Code::invalid_argument, "a read-only manager cannot save",
              cat("it does not own ", job.directory.string()),
              "Make it without ManagerOptions::read_only.");
}

const CatalogEntry* CheckpointManager::Impl::find(std::int64_t step) const {
  for (const auto& entry : catalog) {
    if (entry.step == step) return &entry;
  }
  return nullptr;
}

// Rank 0: whether this step may be saved, and under which number of files.
commit::Transaction CheckpointManager::Impl::new_transaction(std::int64_t step,
                                                             const FileLayout& layout) {
  const auto& options = job.options;
  const auto* there = find(step);
  const bool left_behind = there && (!there->damage.empty() || there->superseded ||
                                     (restored_step && step > *restored_step));
  if (there && !left_behind && !options.overwrite) {
    throw Error(Code::already_exists,
                cat("step ", step, " exists in ", job.directory.string()),
                "it is whole and nothing has superseded it",
                "Save another step, use another directory, or set ManagerOptions::overwrite.")
        .at(job.prefix(step).string());
  }
  constexpr std::int64_t slack_bytes = std::int64_t{4} << 20;  // index, records, metadata
  const auto free = job.files->free_bytes(job.directory);
  if (free < layout.total_bytes + slack_bytes) {
    throw Error(Code::no_space,
                cat("step ", step, " needs ", bytes_text(static_cast<double>(layout.total_bytes)),
                    " in ", job.directory.string(), ", where ",
                    bytes_text(static_cast<double>(free)), " are free"),
                "nothing was written", "Free space, or keep fewer checkpoints (max_to_keep).")
        .at(job.directory.string());
  }
  commit::Transaction save{job.directory, options.name, step, commit::new_uuid(),
                           layout.data_files + 1};
  // Another number of files than anything that is there for this step, so that renaming the index
  // alone switches from the old to the new.
  std::vector<std::int64_t> taken;
  for (const auto& file : job.files->list(job.directory)) {
    const auto parsed = commit::parse_name(file, options.name);
    if (parsed.kind == commit::ParsedName::Kind::data && parsed.step == step) taken.push_back(parsed.count);
  }
  while (std::find(taken.begin(), taken.end(), save.num_files) != taken.end()) ++save.num_files;
  ownership->check();
  commit::begin(*job.files, save);
  return save;
}

// Collective.
CheckpointManager::Impl::Prepared CheckpointManager::Impl::prepare(std::int64_t step,
                                                                   const FileLayout& layout) {
  const auto message = from_root(*job.group, [&] {
    const auto save = new_transaction(step, layout);
    std::int64_t sequence = 1;
    for (const auto& entry : catalog) sequence = std::max(sequence, entry.sequence + 1);
    return WireWriter()
        .put(save.uuid)
        .put(save.num_files)
        .put(sequence)
        .put(now_seconds())
        .take();
  });
  WireReader reader(message);
  Prepared prepared;
  prepared.save = {job.directory, job.options.name, step, reader.get<std::string>(), 0};
  prepared.save.num_files = reader.get<int>();
  prepared.meta.step = step;
  prepared.meta.sequence = reader.get<std::int64_t>();
  prepared.meta.wall_time_seconds = reader.get<double>();
  prepared.meta.version = CAIRN_VERSION;
  prepared.meta.ranks = job.group->size();
  prepared.meta.policy = policy_description(job.options);
  prepared.meta.uuid = prepared.save.uuid;
  return prepared;
}

// Collective, after all ranks have failed alike: on return nobody will roll the save forward.
void CheckpointManager::Impl::abandon(const commit::Transaction& save) {
  if (job.root()) {
    try {
      commit::abandon(*job.files, save);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("while removing what a failed save left: ", error.what()));
    }
  }
  job.group->barrier();
}

// Rank 0, step 7. The checkpoint counts already: what fails here is said, not thrown.
void CheckpointManager::Impl::after_commit(const Prepared& prepared) {
  std::erase_if(catalog, [&](const auto& entry) { return entry.step == prepared.save.step; });
  CatalogEntry entry;
  entry.step = prepared.save.step;
  entry.sequence = prepared.meta.sequence;
  entry.wall_time_seconds = prepared.meta.wall_time_seconds;
  entry.num_files = prepared.save.num_files;
  entry.ranks = prepared.meta.ranks;
  entry.uuid = prepared.meta.uuid;
  catalog.push_back(std::move(entry));
  mark_superseded(catalog);
  restored_step.reset();
  try {
    update_state_file(*job.files, job.directory, job.options.name, catalog);
  } catch (const Error& error) {
    log(LogLevel::warning,
        cat("step ", prepared.save.step, " is saved, but the state file is not: ", error.what()));
  }
}

// Rank 0, step 8.
void CheckpointManager::Impl::collect(const commit::Transaction& save) {
  try {
    commit::clean_up(*job.files, save);
    const auto victims = choose_victims(catalog, job.options.max_to_keep);
    if (victims.empty()) return;
    auto kept = catalog;
    std::erase_if(kept, [&](const auto& entry) {
      return std::find(victims.begin(), victims.end(), entry.step) != victims.end();
    });
    // TensorFlow's manager does the same: the state file never names what is half removed.
    update_state_file(*job.files, job.directory, job.options.name, kept);
    for (const auto step : victims) {
      commit::remove_checkpoint(*job.files, job.directory, job.options.name, step);
      std::erase_if(catalog, [&](const auto& entry) { return entry.step == step; });
    }
  } catch (const Error& error) {
    log(LogLevel::warning, cat("while removing old checkpoints: ", error.what()));
  }
}

CheckpointManager::CheckpointManager(std::shared_ptr<Group> group, std::filesystem::path directory,
                                     ManagerOptions options)
    : impl_(std::make_unique<Impl>(std::move(group), std::move(directory), std::move(options))) {
  guarded(*impl_->job.group, [&] { impl_->open_directory(); });
}

CheckpointManager::~CheckpointManager() = default;
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept = default;

const std::filesystem::path& CheckpointManager::directory() const { return impl_->job.directory; }

std::string CheckpointManager::save(std::int64_t step, const State& state) {
  auto& self = *impl_;
  const Job& job = self.job;
  Group& group = *job.group;
  return guarded(group, [&] {
    self.require_writable();
    require_same(group, "the step", cat(step));
    if (step < 0) {
      throw Error(Code::invalid_argument, cat("step ", step, " is negative"), "",
                  "Steps are numbered from 0.");
    }
    const auto tasks = cover(job, state);
    const auto local = together(group, [&] { return shard(job, state, tasks); });
    const auto layout = lay_out(group, local);
    const auto prepared = self.prepare(step, layout);
    try {
      auto entries = together(group, [&] {
        auto written = write_shards(job, state, local, layout, prepared.save);
        leave_record(job, prepared.save, prepared.meta, layout, written);
        return written;
      });
      auto tensors = merge_entries(group, std::move(entries));
      together(group, [&] {
        if (!job.root()) return;
        const auto sealed = seal_index(std::move(tensors), prepared.meta, layout.data_files,
                                       prepared.save.num_files);
        self.ownership->check();
        commit::publish(*job.files, prepared.save, sealed.index, sealed.own_files);
        self.after_commit(prepared);
      });
    } catch (const Error& error) {
      if (error.code() != Code::communication && error.code() != Code::durability_unknown) {
        self.abandon(prepared.save);
      }
      throw;
    }
    if (job.root()) self.collect(prepared.save);
    return prepared.save.prefix().string();
  });
}

// Collective: rank 0 reads the index, since other nodes may not see the directory as it is now.
CheckpointContents CheckpointManager::Impl::tell_contents(std::int64_t step) {
  const auto message =
      from_root(*job.group, [&] { return encode(load_index(*job.files, job.prefix(step))); });
  return together(*job.group,
                  [&] { return parse_contents(decode_index_file(message), job.prefix(step)); });
}

// Collective.
RestoreReport CheckpointManager::Impl::restore_step(std::int64_t step, State& state) {
  const auto contents = tell_contents(step);
  auto report = restore_state(job, contents, state);
  report.step = step;
  restored_step = step;
  return report;
}

void CheckpointManager::Impl::remember_damage(std::int64_t step, const Error& error) {
  if (!job.root()) return;
  log(LogLevel::warning, cat("step ", step, " is damaged: ", error.what()));
  for (auto& entry : catalog) {
    if (entry.step != step || error.code() != Code::data_loss) continue;
    entry.damage = error.what();
    if (job.options.read_only) continue;
    try {
      mark_damaged(*job.files, job.directory, job.options.name, entry, error.what());
      update_state_file(*job.files, job.directory, job.options.name, catalog);
    } catch (const Error& failed) {
      log(LogLevel::warning, cat("the damage of step ", step, " is not marked: ", failed.what()));
    }
  }
}

std::optional<RestoreReport> CheckpointManager::restore_latest(State& state) {
  auto& self = *impl_;
  const Job& job = self.job;
  Group& group = *job.group;
  return guarded(group, [&]() -> std::optional<RestoreReport> {
    const auto message = from_root(group, [&] {
      // The owner knows its directory; others' contents change under a reader.
      if (job.options.read_only) {
        self.catalog = scan_catalog(*job.files, job.directory, job.options.name);
      }
      std::vector<std::int64_t> steps;
      std::vector<std::string> passed;
      for (const auto* entry : restorable(self.catalog)) steps.push_back(entry->step);
      for (auto entry = self.catalog.rbegin(); entry != self.catalog.rend(); ++entry) {
        if (!steps.empty() && entry->step == steps.front()) break;
        if (!entry->damage.empty() && !entry->superseded) {
          passed.push_back(cat("step ", entry->step, ": ", entry->damage));
        }
      }
      return WireWriter().put(steps).put(passed).take();
    });
    WireReader reader(message);
    const auto steps = reader.get_all<std::int64_t>();
    auto passed = reader.get_all<std::string>();
    if (steps.empty() && passed.empty()) return std::nullopt;
    if (passed.empty() || job.options.fall_back) {
      for (const auto step : steps) {
        try {
          auto report = self.restore_step(step, state);
          report.skipped = passed;
          return report;
        } catch (const Error& error) {
          if (!is_damage(error)) throw;
          self.remember_damage(step, error);
          passed.push_back(cat("step ", step, ": ", error.what()));
          if (!job.options.fall_back) throw;
        }
      }
    }
    std::string reasons;
    for (const auto& one : passed) reasons += (reasons.empty() ? "" : "; ") + one;
    throw Error(Code::data_loss,
                cat("no checkpoint in ", job.directory.string(), " can be restored"), reasons,
                "cairn verify names all that is damaged; restore(step) takes a step that a "
                "restore to an earlier one has superseded.")
        .at(job.directory.string());
  });
}

RestoreReport CheckpointManager::restore(std::int64_t step, State& state) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return guarded(group, [&] {
    require_same(group, "the step", cat(step));
    try {
      return self.restore_step(step, state);
    } catch (const Error& error) {
      if (is_damage(error) && error.code() != Code::not_found) self.remember_damage(step, error);
      throw;
    }
  });
}

CheckpointContents CheckpointManager::open(std::int64_t step) {
  auto& self = *impl_;
  Group& group = *self.job.group;
  return guarded(group, [&] {
    require_same(group, "the step", cat(step));
    return self.tell_contents(step);
  });
}

std::vector<StepInfo> CheckpointManager::steps() {
  auto& self = *impl_;
  const Job& job = self.job;
  return guarded(*job.group, [&] {
    const auto message = from_root(*job.group, [&] {
      if (job.options.read_only) {
        self.catalog = scan_catalog(*job.files, job.directory, job.options.name);
      }
      const auto live = restorable(self.catalog);
      WireWriter writer;
      for (const auto& entry : self.catalog) {
        writer.put(entry.step).put(entry.sequence).put(!live.empty() && live.front() == &entry);
        writer.put(entry.superseded).put(entry.damage);
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
      infos.push_back(std::move(info));
    }
    return infos;
  });
}

}  // namespace cairn
