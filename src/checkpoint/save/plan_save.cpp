// Plan: from what all ranks hold to what each of them writes, and where.
#include "checkpoint/save/save_plan.hpp"

#include "group/collectives.hpp"

namespace cairn {

SavePlan plan_save(const Job& job, const State& state, const ReplicaTurn& turn) {
  SavePlan plan;
  auto covered = cover(job, state, turn);
  plan.replicas = std::move(covered.replicas);
  const bool hdf5 = job.options.format == Format::hdf5;
  if (hdf5) {
    plan.gathered =
        gather_for_hdf5(job, state, covered.tasks, covered.dense, plan.local.strings);
  } else {
    plan.local = together(*job.group, [&] { return shard(job, state, covered.tasks); });
  }
  plan.dense = plan_dense(std::move(covered.dense), job.group->size(), job.options.chunk_bytes,
                          job.served_by);
  plan.layout = hdf5 ? lay_out_hdf5(job, plan.gathered.small, plan.dense)
                     : lay_out(job, plan.local, plan.dense);
  return plan;
}

}  // namespace cairn
