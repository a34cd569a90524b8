// Options: what they may be, and that all ranks have the same.
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "format/hdf5/lay_out.hpp"
#include "group/collectives.hpp"
#include "job/job.hpp"

namespace cairn {
namespace {

const ShardingCallback& policy_of(const ManagerOptions& options) {
  static const ShardByTaskPolicy by_default;
  return options.policy ? *options.policy : by_default;
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

void require_interval(const SaveInterval& interval) {
  const auto& mtbf = interval.optimal_for;
  if (interval.steps >= 0 && interval.seconds >= 0 && (!mtbf || mtbf->seconds > 0)) return;
  throw Error(Code::invalid_argument, "a number in ManagerOptions::interval cannot be used",
              cat("steps ", interval.steps, ", seconds ", interval.seconds,
                  ", mean time between "
                  "failures ",
                  mtbf ? cat(mtbf->seconds) : "not given"),
              "Steps and seconds are from 0 on, the mean time is more than 0.");
}

// Parameters that are not stated differ from stated ones, but not from each other.
std::string policy_parameters(const ManagerOptions& options) {
  const auto stated = policy_of(options).parameters();
  return stated ? cat("'", *stated, "'") : "none that it states";
}

}  // namespace

void require_savers(Group& group, const std::vector<RegisteredSaver>& savers) {
  std::string names;
  for (const auto& saver : savers) names += cat("'", saver.name, "' ");
  require_same(group, "the registered savers", names);
  std::set<std::string_view> seen;
  together(group, [&] {
    for (const auto& saver : savers) {
      const char* problem = saver.name.empty()                ? "has no name"
                            : !saver.save || !saver.restore   ? "lacks a function"
                            : !seen.insert(saver.name).second ? "is registered twice"
                            : !is_utf8(saver.name)            ? "has a name that is not UTF-8"
                                                              : nullptr;
      if (!problem) continue;
      throw Error(Code::invalid_argument, cat("saver '", saver.name, "' ", problem));
    }
  });
}

void settle_options(Job& job) {
  Group& group = *job.group;
  const auto& options = job.options;
  std::string parameters;
  together(group, [&] {
    commit::check_checkpoint_name(job.naming.name);
    if (options.chunk_bytes < 4096 || options.chunk_bytes > (std::int64_t{64} << 20)) {
      throw Error(Code::invalid_argument,
                  cat(job.options_name, "::chunk_bytes is ", options.chunk_bytes),
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
    require_interval(options.interval);
    require_limit(options);
    require_format(options);
    job.policy = policy_of(options).description();
    parameters = policy_parameters(options);
  });
  settle_nodes(job);
  require_same(group, "the directory", job.directory.string());
  require_same(group, job.options_name, settings_of(options, job.naming.name));
  require_same(group, "the sharding policy", job.policy);
  require_savers(group, options.savers);
  require_same(group, "the parameters of the sharding policy", parameters);
  settle_io_ranks(job);
  settle_writer(job);
}

}  // namespace cairn
