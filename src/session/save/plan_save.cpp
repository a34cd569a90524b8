// Plan: from what all ranks hold, finds out what each of them writes, and where.
#include "session/save/save_plan.hpp"

#include "model/sparse.hpp"
#include "session/save/formats/save_format.hpp"

namespace cairn {
namespace {

// For the statistics only. A summand may be negative; the sum over ranks is not.
std::int64_t replica_bytes(const Job& job, const RefreshedState& state, const Covered& covered) {
  std::int64_t bytes = 0;
  for (const auto& [key, tensor] : state.tensors()) {
    if (tensor.strings) continue;
    const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    for (const auto& slice : tensor.slices) {
      if (!is_fill(slice)) bytes += slice.box.count() * item;
    }
  }
  for (const auto& task : covered.tasks) {
    const auto& tensor = state.tensors()[task.tensor].second;
    if (tensor.strings || task.slice < 0) continue;
    bytes -= task.box.count() * static_cast<std::int64_t>(dtype_size(tensor.dtype));
  }
  if (!job.root()) return bytes;
  for (const auto& one : covered.dense) {
    bytes -= element_count(one.shape) * static_cast<std::int64_t>(dtype_size(one.dtype));
  }
  return bytes;
}

}  // namespace

std::int64_t SavePlan::copy_bytes(const RefreshedState& state, Until until) const {
  return capture.layout().bytes - capture.left_out(state, until) -
         StayingRuns(state, dense, until).bytes();
}

SavePlan plan_save(const Job& job, const RefreshedState& state, const ReplicaRound& round,
                   const Sharding& sharding, std::shared_ptr<const GapsByKey> gaps,
                   const UnchangedTensors& unchanged) {
  SavePlan plan;
  plan.sharding = sharding;
  plan.gaps = std::move(gaps);
  plan.unchanged = &unchanged;
  auto covered = cover(job, state, round, sharding);
  plan.replica_bytes = replica_bytes(job, state, covered);
  plan.replicas = std::move(covered.replicas);
  plan.divided = std::move(covered.divided);
  save_format_of(job).lay_out(job, state, std::move(covered), plan);
  return plan;
}

}  // namespace cairn
