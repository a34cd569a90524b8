// Messages are small in the usual case: most ranks have all slices on one device task, which is
// named once.
#include "session/save/formats/holding.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "cairn/error.hpp"
#include "exchange/messages.hpp"
#include "model/sparse.hpp"

namespace cairn {
namespace {

using TensorsByKey = std::unordered_map<std::string_view, const LocalTensor*>;
// For each task pairs of tensor and slice. Slice -1: all slices of the tensor that are not named.
using HeldByTask = std::map<DeviceTask, std::vector<int>>;

HeldByTask held_by_task(const Job& job, const TensorsByKey& by_key,
                        const std::vector<DenseTensor>& dense) {
  HeldByTask by_task;
  for (std::size_t t = 0; t < dense.size(); ++t) {
    const auto mine = by_key.find(dense[t].key);
    if (mine == by_key.end() || mine->second->slices.empty()) continue;
    const auto put = [&](int slice) {
      auto& all = by_task[device_of(job, *mine->second, slice)];
      all.push_back(static_cast<int>(t));
      all.push_back(slice);
    };
    // The tensor's own device, for all slices that name none.
    put(-1);
    for (std::size_t s = 0; s < mine->second->slices.size(); ++s) {
      if (!mine->second->slices[s].device_type.empty()) put(static_cast<int>(s));
    }
  }
  return by_task;
}

}  // namespace

RankHolding holding_of(const Job& job, const RefreshedState& state,
                       const std::vector<DenseTensor>& dense) {
  TensorsByKey by_key;
  for (const auto& [key, tensor] : state.tensors()) by_key[key] = &tensor;
  const auto by_task = held_by_task(job, by_key, dense);
  // The task with most entries comes first, and need not list what it has.
  const auto most = std::max_element(
      by_task.begin(), by_task.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const auto is_held = [&](const DenseTensor& one, const DenseTensor::Part& part) {
    return part.slice < 0 ||
           !is_fill(by_key.at(one.key)->slices[static_cast<std::size_t>(part.slice)]);
  };
  RankHolding holding;
  for (std::size_t t = 0; t < dense.size(); ++t) {
    for (const auto& part : dense[t].parts) {
      if (!is_held(dense[t], part)) continue;
      holding.parts.push_back({static_cast<int>(t), part.slice, part.box});
    }
  }
  if (by_task.empty()) return holding;
  std::vector<int> named;
  for (std::size_t i = 0; i < most->second.size(); i += 2) {
    if (most->second[i + 1] < 0) continue;
    named.insert(named.end(), {most->second[i], most->second[i + 1]});
  }
  holding.tasks.push_back({to_string(most->first), std::move(named)});
  for (auto other = by_task.begin(); other != by_task.end(); ++other) {
    if (other != most) holding.tasks.push_back({to_string(other->first), other->second});
  }
  return holding;
}

void Holding::take_rank(RankHolding holding) {
  auto& rank = ranks_.emplace_back();
  rank.parts = std::move(holding.parts);
  if (!holding.tasks.empty()) rank.task = number_of(holding.tasks.front().task);
  for (const auto& [task, others] : holding.tasks) {
    const auto number = number_of(task);
    for (std::size_t o = 0; o + 1 < others.size(); o += 2) {
      rank.others[{others[o], others[o + 1]}] = number;
    }
  }
}

void Holding::add(const std::string& key, Box box, const std::string& task) {
  holders_.tensors[key] = {{std::move(box), number_of(task)}};
}

// Joins the parts of all ranks under the keys of their tensors, ascending by box.
hdf5::Holders Holding::finish(const std::vector<DenseTensor>& dense) {
  for (const auto& one : dense) holders_.tensors[one.key];
  for (auto& rank : ranks_) {
    for (auto& part : rank.parts) {
      auto other = rank.others.find({part.tensor, part.slice});
      if (other == rank.others.end()) other = rank.others.find({part.tensor, -1});
      holders_.tensors[dense[static_cast<std::size_t>(part.tensor)].key].push_back(
          {std::move(part.box), other == rank.others.end() ? rank.task : other->second});
    }
    rank.parts = {};
  }
  for (const auto& one : dense) {
    auto& slices = holders_.tensors[one.key];
    std::sort(slices.begin(), slices.end(),
              [](const auto& a, const auto& b) { return a.box < b.box; });
  }
  return std::move(holders_);
}

std::size_t Holding::number_of(const std::string& task) {
  const auto [at, is_new] = numbers_.emplace(task, holders_.tasks.size());
  if (is_new) holders_.tasks.push_back(task);
  return at->second;
}

}  // namespace cairn
