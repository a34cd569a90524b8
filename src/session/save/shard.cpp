// Shard: gives each task's tensors to the policy. Then files are numbered over all ranks.
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/let_go.hpp"
#include "base/text.hpp"
#include "group/collectives.hpp"
#include "model/key_pattern.hpp"
#include "session/save/call_policy.hpp"
#include "session/save/save_steps.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {
namespace {

// Orders by task; the device does not matter.
struct TaskOrder {
  bool operator()(const DeviceTask& a, const DeviceTask& b) const {
    return std::tie(a.job, a.replica, a.task) < std::tie(b.job, b.replica, b.task);
  }
};
struct Apart {
  bool operator()(const auto& a, const auto& b) const {
    const TaskOrder before;
    if (before(a.first, b.first) || before(b.first, a.first)) return before(a.first, b.first);
    return a.second < b.second;
  }
};
// What a task has for one rule of Retention::keys, since what a rule lets go must be in files of
// its own. The second part of the key is the index of the rule; the number of rules: no rule.
struct OfTask {
  std::vector<Task> tasks;
  std::vector<DeviceTask> devices;  // by task; only for a policy to see
};
using ByTask = std::map<std::pair<DeviceTask, std::size_t>, OfTask, Apart>;

std::size_t rule_of(const Job& job, const std::string& key) {
  const auto& rules = job.options.keep.keys;
  const auto at = std::find_if(rules.begin(), rules.end(),
                               [&](const auto& rule) { return means_key(rule.keys, key); });
  return static_cast<std::size_t>(at - rules.begin());
}

// Tensors that the save itself added to the state, by key: a policy sees them without an owner.
using OwnTensors = std::map<std::string_view, std::size_t>;

ShardableTensor as_policies_see(const RefreshedState& state, const StringStore& strings,
                                const Task& task, DeviceTask device) {
  const auto& [key, tensor] = state.tensors()[task.tensor];
  const auto& names = state.objects().names;
  const auto named = names.empty() ? names.end() : names.find(key);
  ShardableTensor one;
  one.name = named == names.end() ? key : named->second;
  one.key = key;
  one.dtype = tensor.dtype;
  one.shape = tensor.shape;
  if (!tensor.made_by_save) one.owner = task.tensor;
  if (task.slice >= 0) one.owner_slice = static_cast<std::size_t>(task.slice);
  one.slice = task.box;
  one.bytes = bytes_of(state, strings, task);
  one.task = std::move(device);
  return one;
}

// Calls the policy for one task, and turns its answer into tasks again, since what a policy sees
// takes several times the memory.
void call(const ShardingCallback& policy, const RefreshedState& state, OfTask its,
          LocalShards& local) {
  std::vector<ShardableTensor> tensors;
  tensors.reserve(its.tasks.size());
  OwnTensors own;
  for (std::size_t i = 0; i < its.tasks.size(); ++i) {
    const auto& task = its.tasks[i];
    const auto& one = tensors.emplace_back(
        as_policies_see(state, local.strings, task, std::move(its.devices[i])));
    if (!one.owner) own.emplace(state.tensors()[task.tensor].first, task.tensor);
  }
  its = {};
  const auto description = policy.description();
  const auto what = cat("the ", tensors.size(), " slices of ", to_string(tensors.front().task));
  auto shards = call_policy(description, what, [&] { return policy(tensors); });
  validate_shards(shards, tensors, description);
  let_go(tensors);
  for (auto& shard : shards) {
    std::vector<Task> one;
    for (const auto& [key, slices] : shard) {
      for (const auto& [box, tensor] : slices) {
        const auto owner = tensor.owner ? *tensor.owner : own.at(key);
        one.push_back({owner, static_cast<int>(tensor.owner_slice), box});
      }
    }
    shard.clear();
    if (!one.empty()) local.shards.push_back(std::move(one));
  }
}

// All of a task in one shard, without making what a policy would see and return.
void take_as_one(const RefreshedState& state, std::vector<Task> tasks, LocalShards& local) {
  std::sort(tasks.begin(), tasks.end(), [&](const Task& a, const Task& b) {
    if (a.tensor == b.tensor) return a.box < b.box;
    return state.tensors()[a.tensor].first < state.tensors()[b.tensor].first;
  });
  local.shards.push_back(std::move(tasks));
}

}  // namespace

DeviceTask device_of(const Job& job, const LocalTensor& tensor, int slice) {
  if (slice >= 0 && !tensor.slices[static_cast<std::size_t>(slice)].device_type.empty()) {
    auto one = nothing(tensor.dtype, tensor.shape);
    one.storage = tensor.storage;
    // Such a slice is looked at as a tensor of its own on that device, so that the application's
    // device_of sees it, too.
    auto& only = one.slices.emplace_back(tensor.slices[static_cast<std::size_t>(slice)]);
    one.device_type = std::exchange(only.device_type, "");
    one.device_index = std::exchange(only.device_index, std::nullopt);
    return device_of(job, one, 0);
  }
  if (job.options.store.device_of) return job.options.store.device_of(job.rank(), tensor);
  DeviceTask task;
  task.task = job.rank();
  task.device_type = tensor.device_type;
  // Without a device index, the memory belongs to the rank's own device: the ranks of a node are
  // assigned its devices in order.
  task.device_index =
      tensor.device_index.value_or(tensor.device_type == "CPU" ? 0 : job.places.rank_in_node);
  return task;
}

std::int64_t bytes_of(const RefreshedState& state, const StringStore& strings, const Task& task) {
  const auto& tensor = state.tensors()[task.tensor].second;
  if (tensor.strings) return static_cast<std::int64_t>(strings.at(task.tensor).bytes.size());
  return task.box.count() * static_cast<std::int64_t>(dtype_size(tensor.dtype));
}

// Groups tasks by device task and by rule of Retention::keys, so that the policy never mixes two
// groups in one file.
LocalShards shard(const Job& job, const RefreshedState& state, std::vector<Task> tasks,
                  const Sharding& sharding) {
  const auto& policy = policy_of(sharding.policy);
  // The default policy's answer is known, so it is not called. A class that derives from it is
  // called.
  const bool is_one = typeid(policy) == typeid(ShardByTaskPolicy);
  LocalShards local;
  ByTask by_task;
  for (auto& task : tasks) {
    const auto& [key, tensor] = state.tensors()[task.tensor];
    if (tensor.strings) {
      local.strings[task.tensor] = bundle::encode_strings(string_values(key, tensor));
    }
    local.bytes += bytes_of(state, local.strings, task);
    auto device = device_of(job, tensor, task.slice);
    auto& its = by_task[{device, rule_of(job, key)}];
    if (by_task.size() == 1 && its.tasks.empty()) its.tasks.reserve(tasks.size());  // all of them
    its.tasks.push_back(std::move(task));
    if (!is_one) its.devices.push_back(std::move(device));
  }
  let_go(tasks);
  for (auto& [of_task, its] : by_task) {
    if (is_one) {
      take_as_one(state, std::move(its.tasks), local);
    } else {
      call(policy, state, std::move(its), local);
    }
  }
  return local;
}

// Every rank computes the numbers of all files and writers from one sum.
FileLayout lay_out(const Job& job, const LocalShards& local, const LocalShards& frozen,
                   const DensePlan& dense, const Sharding& sharding) {
  Group& group = *job.group;
  // A sum in which each rank fills its own element. This takes fewer bytes than gathered texts, and
  // no rank receives more than its share of the messages. The last elements are the number of bytes
  // of all ranks, and of files of frozen tensors.
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> all(ranks + 2);
  const auto own = local.shards.size() + frozen.shards.size();
  all[static_cast<std::size_t>(group.rank())] =
      2 * static_cast<std::int64_t>(own) + (dense.writes() ? 1 : 0);
  all[ranks] = local.bytes;
  all[ranks + 1] = static_cast<std::int64_t>(frozen.shards.size());
  group.all_reduce(all, Group::Op::sum);
  FileLayout layout;
  layout.total_bytes = all[ranks];
  layout.frozen_files = static_cast<int>(all[ranks + 1]);
  std::vector<bool> writes(ranks);
  std::vector<int> shards;
  for (int rank = 0; rank < group.size(); ++rank) {
    // Twice the number of shards, plus 1 if the rank has runs of dense tensors.
    const auto said = all[static_cast<std::size_t>(rank)];
    shards.push_back(static_cast<int>(said / 2));
    if (shards.back() > 0) writes[static_cast<std::size_t>(job.io_rank_of(rank))] = true;
    if (said % 2 != 0) writes[static_cast<std::size_t>(rank)] = true;
  }
  layout.one_file = writer_of(job).one_file(job, sharding);
  const auto files = writer_of(job).number(job, shards, layout.one_file);
  layout.first_file = files.first;
  layout.first_frozen = files.first + static_cast<int>(local.shards.size());
  layout.data_files = layout.shard_files = files.all;
  for (int rank = 0; rank < group.size(); ++rank) {
    const bool leaves_record = writes[static_cast<std::size_t>(rank)];
    if (rank == group.rank() && leaves_record) layout.writer = layout.writers;
    layout.writers += leaves_record;
  }
  if (dense.bytes > 0) {
    // Files of dense tensors come last: recycling does not take them
    // (Completion::tidy_in_background).
    layout.dense_file = layout.data_files;
    layout.data_files += static_cast<int>(dense.file_bytes.size());
    layout.total_bytes += dense.bytes;
  }
  return layout;
}

}  // namespace cairn
