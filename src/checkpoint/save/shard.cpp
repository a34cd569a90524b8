// Shard: each device task's tensors through the policy; then files are numbered over all ranks.
#include <map>
#include <utility>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "checkpoint/save/save_steps.hpp"
#include "group/collectives.hpp"
#include "group/crash.hpp"

namespace cairn {
namespace {

// What a user's code throws is put in words that name it.
std::vector<Shard> call(const ShardingCallback& policy, const std::string& description,
                        const std::vector<ShardableTensor>& tensors) {
  const auto failed = [&](const std::string& why) {
    return Error(Code::sharding, cat("the checkpoint sharding callback '", description, "' failed"),
                 cat("for the ", tensors.size(), " slices of ", to_string(tensors.front().task),
                     " it threw: ", why));
  };
  try {
    return policy(tensors);
  } catch (const Error&) {
    throw;
  } catch (const Crashed&) {
    throw;
  } catch (const std::exception& exception) {
    throw failed(exception.what());
  } catch (...) {
    throw failed("an exception of unknown type");
  }
}

}  // namespace

DeviceTask device_of(const Job& job, const LocalTensor& tensor, int slice) {
  if (slice >= 0 && !tensor.slices[static_cast<std::size_t>(slice)].device_type.empty()) {
    auto one = nothing(tensor.dtype, tensor.shape);
    one.storage = tensor.storage;
    auto& only = one.slices.emplace_back(tensor.slices[static_cast<std::size_t>(slice)]);
    one.device_type = std::exchange(only.device_type, "");
    one.device_index = std::exchange(only.device_index, std::nullopt);
    return device_of(job, one, 0);
  }
  if (job.options.device_of) return job.options.device_of(job.rank(), tensor);
  DeviceTask task;
  task.task = job.rank();
  task.device_type = tensor.device_type;
  // A rank's own device, unless the memory names one: ranks of a node share its devices in turn.
  task.device_index =
      tensor.device_index.value_or(tensor.device_type == "CPU" ? 0 : job.rank_in_node);
  return task;
}

LocalShards shard(const Job& job, const State& state, const std::vector<Task>& tasks) {
  LocalShards local;
  std::map<DeviceTask, std::vector<ShardableTensor>> by_task;
  for (const auto& task : tasks) {
    const auto& [key, tensor] = state.tensors()[task.tensor];
    ShardableTensor one;
    one.name = one.key = key;
    one.dtype = tensor.dtype;
    one.shape = tensor.shape;
    one.owner = task.tensor;
    if (task.slice >= 0) one.owner_slice = static_cast<std::size_t>(task.slice);
    one.slice = task.box;
    if (tensor.strings) {
      auto encoded = bundle::encode_strings(string_values(key, tensor));
      one.bytes = static_cast<std::int64_t>(encoded.bytes.size());
      local.strings[task.tensor] = std::move(encoded);
    } else {
      one.bytes = one.slice.count() * static_cast<std::int64_t>(dtype_size(one.dtype));
    }
    local.bytes += one.bytes;
    one.task = device_of(job, tensor, task.slice);
    by_task[one.task].push_back(std::move(one));
  }
  static const ShardByTaskPolicy by_default;
  const ShardingCallback& policy = job.options.policy ? *job.options.policy : by_default;
  const auto description = by_task.empty() ? std::string() : policy.description();
  for (const auto& [task, tensors] : by_task) {
    auto shards = call(policy, description, tensors);
    validate_shards(shards, tensors, description);
    for (auto& one : shards) {
      std::erase_if(one, [](const auto& slices) { return slices.second.empty(); });
      if (one.empty()) continue;
      for (auto& [key, slices] : one) {
        for (auto& [box, tensor] : slices) {
          // Callbacks that cut need not keep count.
          if (tensor.dtype != DType::string)
            tensor.bytes = box.count() * static_cast<std::int64_t>(dtype_size(tensor.dtype));
        }
      }
      local.shards.push_back(std::move(one));
    }
  }
  return local;
}

FileLayout lay_out(const Job& job, const LocalShards& local, const DensePlan& dense) {
  Group& group = *job.group;
  const auto mine =
      WireWriter().put(static_cast<std::int64_t>(local.shards.size())).put(local.bytes).take();
  FileLayout layout;
  auto writes = dense.writers;
  std::map<int, int> shared;  // files that ranks share and have something for, and their numbers
  const auto all = all_gather(group, mine);
  for (int rank = 0; rank < group.size(); ++rank) {
    WireReader reader(all[static_cast<std::size_t>(rank)]);
    const auto files = static_cast<int>(reader.get<std::int64_t>());
    if (files > 0) writes[static_cast<std::size_t>(job.io_rank_of(rank))] = true;
    if (rank == group.rank()) layout.first_file = layout.data_files;
    if (job.shares_files()) {
      if (files > 0) shared.emplace(job.file_of[static_cast<std::size_t>(rank)], 0);
    } else {
      layout.data_files += files;
    }
    layout.total_bytes += reader.get<std::int64_t>();
  }
  for (auto& [dealt, number] : shared) number = layout.data_files++;
  if (job.shares_files()) {
    const auto mine_shared = shared.find(job.file_of[static_cast<std::size_t>(group.rank())]);
    layout.first_file = mine_shared == shared.end() ? 0 : mine_shared->second;
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    const bool leaves_record = writes[static_cast<std::size_t>(rank)];
    if (rank == group.rank() && leaves_record) layout.writer = layout.writers;
    layout.writers += leaves_record;
  }
  if (dense.bytes > 0) {
    layout.dense_file = layout.data_files++;
    layout.total_bytes += dense.bytes;
  }
  return layout;
}

}  // namespace cairn
