// A save as HDF5: everything but the elements of numeric tensors is rank 0's work.
#include "session/save/formats/save_hdf5.hpp"

#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "session/save/formats/hdf5_file.hpp"

namespace cairn {

// Data files are never recycled, since an HDF5 file has holes.
void Hdf5Save::validate(Job& job) const {
  hdf5::require_available();
  if (job.options.hooks.savers.empty()) return;
  throw Error(Code::unsupported, "registered savers cannot take part in a save as HDF5",
              "what they write are bundles, whose files become part of the checkpoint",
              "Save in the format of bundles.");
}

std::string Hdf5Save::limits_policy(const Job&) const {
  return "is never called: a checkpoint as HDF5 is one file, which holds each tensor whole.";
}

void Hdf5Save::choose_files(const Sharding&, const RefreshedState&,
                            std::vector<DenseTensor>& all) const {
  for (auto& one : all) one.file = 0;
}

void Hdf5Save::lay_out(const Job& job, const RefreshedState& state, Covered&& covered,
                       SavePlan& plan) const {
  plan.gathered = gather_for_hdf5(job, state, covered.tasks, covered.dense, plan.local.strings);
  plan.dense = plan_dense(*job.group, std::move(covered.dense), job.options.write.chunk_bytes,
                          job.places.served_by);
  plan.layout = lay_out_hdf5(job, plan.gathered.small, plan.dense);
  // Rank 0 keeps all ranks' strings of this save, so a plan with strings cannot be used again.
  // Without strings, rank 0 lays the file out anew for each save.
  const bool any_strings = any_of(*job.group, !plan.local.strings.empty());
  plan.again = any_strings ? SavePlan::Again::never : SavePlan::Again::told;
}

SaveFormat::Begun Hdf5Save::begin(const Job& job, const RefreshedState&, Draft& draft,
                                  CheckpointMeta& meta, SavePlan& plan, FileLayout&) const {
  Begun begun;
  begun.entries = make_hdf5(job, draft, meta, plan.gathered, plan.dense, begun.structure.emplace());
  return begun;
}

// Entries are not encoded yet, since the table is made of tensors when all places in the file are
// known.
JoinedEntries Hdf5Save::merge(Group& group, EntryList mine, const SavePlan& plan,
                              SaveStatistics& figures) const {
  return merge_entries(group, std::move(mine), false, &figures, plan.divided, *plan.gaps);
}

}  // namespace cairn
