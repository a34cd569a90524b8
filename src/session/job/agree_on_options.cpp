// Which values options may have; and that they are the same on all ranks.
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "session/job/job.hpp"

namespace cairn {
namespace {

const ShardingCallback& policy_of(const ManagerOptions& options) {
  static const ShardByTaskPolicy by_default;
  return options.store.policy ? *options.store.policy : by_default;
}

void require_keep(const Retention& keep) {
  const auto refuse = [](const char* option, auto value, const char* way_out) {
    throw Error(Code::invalid_argument, cat("Retention::", option, " is ", value), "", way_out);
  };
  const auto* none = "Give a number from 0 on; 0 means none.";
  if (keep.last < 0) refuse("last", keep.last, "Give a number of checkpoints, or 0 to keep all.");
  if (keep.every_steps < 0) refuse("every_steps", keep.every_steps, none);
  if (keep.best < 0) refuse("best", keep.best, none);
  if (!(keep.every_hours >= 0)) refuse("every_hours", keep.every_hours, none);
  for (const auto& rule : keep.keys) {
    if (rule.keys.empty()) refuse("keys", "a rule without a pattern", "Name keys: optimizer/*.");
    if (rule.last < 0) {
      refuse("keys", cat("'", rule.keys, "' with last = ", rule.last),
             "Give a number of checkpoints, or 0 to keep all.");
    }
    if (rule.every < 1) {
      refuse("keys", cat("'", rule.keys, "' with every = ", rule.every),
             "Give a number from 1 on: each save, or one in so many, has the tensors.");
    }
  }
}

void require_numbers(const ManagerOptions& options) {
  const auto stripes = options.write.stripes;
  if (stripes < -1 || stripes > 2000) {
    throw Error(Code::invalid_argument, cat("WriteOptions::stripes is ", stripes),
                "a file lies over 1 to 2,000 storage targets",
                "Give such a number, 0 to leave it to Cairn, or -1 to leave it to the directory.");
  }
  const auto& frozen = options.frozen;
  if (frozen.read_every < 0 || frozen.most_names < 0) {
    const bool first = frozen.read_every < 0;
    throw Error(Code::invalid_argument,
                cat("FrozenOptions::", first ? "read_every" : "most_names", " is ",
                    first ? frozen.read_every : frozen.most_names),
                "", "Give a number from 0 on.");
  }
  if (options.write.storage_limit_seconds >= 0) return;
  throw Error(Code::invalid_argument,
              cat("WriteOptions::storage_limit_seconds is ", options.write.storage_limit_seconds),
              "", "Give seconds, or 0 for no limit.");
}

std::string text_of(const std::string& value) { return value; }
std::string text_of(const PathText& value) { return value.string(); }
std::string text_of(const std::optional<Mtbf>& mtbf) {
  return mtbf ? cat(mtbf->seconds, " s of kind ", static_cast<int>(mtbf->of)) : "none";
}
// Code cannot be compared between ranks, only whether it is given, and how often.
std::string text_of(const Migrate& value) { return value ? "given" : "none"; }
template <class T>
std::string text_of(const std::shared_ptr<T>& value) {
  return value ? "given" : "none";
}
std::string text_of(const std::vector<KeyRule>& rules) {
  std::string text;
  for (const auto& rule : rules) {
    text += cat('\'', rule.keys, "':last=", rule.last, ":every=", rule.every, ' ');
  }
  return text;
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  return cat(values.size(), " given");
}
std::string text_of(const std::vector<std::string>& values) {
  std::string text;
  for (const auto& value : values) text += cat('\'', value, "' ");
  return text;
}
template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return words(value).at(static_cast<std::size_t>(value));
  } else {
    static_assert(std::is_arithmetic_v<T>);
    return cat(value);
  }
}

// A visitor of options. Collects those that ranks must agree on, under the names that programs use.
// `validated` members are left out, since the code that uses them compares them, and `own` ones, in
// which ranks may differ.
struct AgreedSettings {
  std::vector<Setting>& found;
  std::string group_name = {};

  template <class T>
  void agreed(const char* name, const T& value) {
    found.push_back({cat(group_name, name), text_of(value)});
  }
  template <class T>
  void group(const char* name, const T& options) {
    T::visit(options, AgreedSettings{found, cat(group_name, name, ".")});
  }
  template <class T>
  void validated(const char*, const T&) {}
  template <class T>
  void own(const char*, const T&) {}
};

std::vector<Setting> settings_of(ManagerOptions options, const std::string& name) {
  options.name = name;  // other interfaces than the manager's give the name differently
  std::vector<Setting> found;
  ManagerOptions::visit(std::as_const(options), AgreedSettings{found});
  return found;
}

void require_interval(const SaveInterval& interval) {
  const auto& mtbf = interval.optimal_for;
  if (interval.steps >= 0 && interval.seconds >= 0 && (!mtbf || mtbf->seconds > 0)) return;
  throw Error(Code::invalid_argument, "a number in WhenOptions::interval cannot be used",
              cat("steps ", interval.steps, ", seconds ", interval.seconds,
                  ", mean time between "
                  "failures ",
                  mtbf ? cat(mtbf->seconds) : "not given"),
              "Steps and seconds are from 0 on, the mean time is more than 0.");
}

// A policy that does not state its parameters differs from one that does, but not from another one
// that does not.
std::string policy_parameters(const ManagerOptions& options) {
  const auto stated = policy_of(options).parameters();
  return stated ? cat("'", *stated, "'") : "none that it states";
}

}  // namespace

// The names are compared first: ranks with different savers would send different messages in a
// save.
void require_savers(Group& group, const std::vector<RegisteredSaver>& savers) {
  std::string names;
  for (const auto& saver : savers) names += cat("'", saver.name, "' ");
  require_same(group, "the registered savers", names);
  std::set<std::string_view> seen;
  run_and_agree(group, [&] {
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

// Local checks come first, so that a bad value is reported as one, even if ranks give different bad
// values.
void agree_on_options(Job& job) {
  Group& group = *job.group;
  const auto& options = job.options;
  std::string parameters;
  run_and_agree(group, [&] {
    commit::check_checkpoint_name(job.naming.name);
    if (options.write.chunk_bytes < 4096 || options.write.chunk_bytes > (std::int64_t{64} << 20)) {
      throw Error(Code::invalid_argument,
                  cat("WriteOptions::chunk_bytes is ", options.write.chunk_bytes),
                  "it must lie between 4096 and 64 MiB");
    }
    if (options.restore.tries < 0) {
      throw Error(Code::invalid_argument, cat("RestartOptions::tries is ", options.restore.tries),
                  "it is the number of runs that may restore a step in vain",
                  "Give 0 where no step is ever to be passed over for that.");
    }
    if (options.store.replicas.sample_of < 1) {
      throw Error(Code::invalid_argument,
                  cat("ReplicaOptions::sample_of is ", options.store.replicas.sample_of),
                  "it must be at least 1");
    }
    require_keep(options.keep);
    require_interval(options.when.interval);
    require_numbers(options);
    job.sharding = {options.store.policy, policy_of(options).description()};
    parameters = policy_parameters(options);
  });
  agree_on_nodes(job);
  require_same(group, "the directory", job.directory.string());
  require_same(group, job.options_name, settings_of(options, job.naming.name));
  require_same(group, "the sharding policy", job.sharding.description);
  require_savers(group, options.hooks.savers);
  require_same(group, "the parameters of the sharding policy", parameters);
  agree_on_io_ranks(job);
}

}  // namespace cairn
