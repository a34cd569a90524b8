#include "session/save/formats/save_hdf5.hpp"

#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "session/save/formats/hdf5_file.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {

void Hdf5Save::require(const ManagerOptions& options) const {
  hdf5::require_available();
  if (options.hooks.savers.empty()) return;
  throw Error(Code::unsupported, "registered savers cannot take part in a save as HDF5",
              "what they write are bundles, whose files become part of the checkpoint",
              "Save in the format of bundles.");
}

std::string Hdf5Save::limits_policy() const {
  return "is never called: a checkpoint as HDF5 is one file, which holds each tensor whole.";
}

void Hdf5Save::lay_out(const Job& job, const State& state, Covered&& covered,
                       SavePlan& plan) const {
  plan.gathered = gather_for_hdf5(job, state, covered.tasks, covered.dense, plan.local.strings);
  plan.dense = plan_dense(*job.group, std::move(covered.dense), job.options.write.chunk_bytes,
                          job.places.served_by);
  plan.layout = lay_out_hdf5(job, plan.gathered.small, plan.dense);
}

// Rank 0 has all ranks' strings, as they were.
bool Hdf5Save::may_repeat(const Job& job, const SavePlan& plan) const {
  return !any_of(*job.group, !plan.local.strings.empty());
}

SaveFormat::Begun Hdf5Save::begin(const Job& job, const State&, Draft& draft, CheckpointMeta& meta,
                                  SavePlan& plan, FileLayout&) const {
  Begun begun;
  begun.has_made_files = true;
  begun.entries = make_hdf5(job, draft, meta, plan.gathered, plan.dense, begun.structure);
  return begun;
}

void Hdf5Save::end_runs(const Job& job, const Draft& draft, const SavePlan& plan,
                        const Begun& begun) const {
  if (!writer_of(job).changes_structure() || plan.dense.bytes == 0) return;
  together(*job.group, [&] {
    if (job.root()) put_back_structure(*job.files, draft, begun.structure);
  });
}

}  // namespace cairn
