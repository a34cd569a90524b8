// A save as a bundle: shards in data files, and an index that the ranks have encoded together.
#include "session/save/formats/save_bundle.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "layout/codec.hpp"
#include "session/save/frozen.hpp"
#include "session/save/savers.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {
namespace {

// TensorFlow's time to read a tensor grows with the square of the number of its slices: 10,000
// slices take half a second.
constexpr std::size_t most_slices = 8000;

}  // namespace

bool BundleSave::stores_dense(const CoveredTensor& tensor, std::size_t slices) const {
  if (tensor.storage != Storage::automatic) return tensor.storage == Storage::dense;
  // A single slice is one array already.
  if (slices == 1) return false;
  return !dtype_assembles_in_tensorflow(tensor.dtype) || slices > most_slices;
}

void BundleSave::validate(Job& job) const {
  if (job.options.store.codec != StoreCodec::none) {
    throw Error(Code::unsupported, "a bundle takes no store.codec",
                "TensorFlow must read it, and reads only bytes that are not encoded",
                "Save as HDF5 (store.format), or without a codec.");
  }
  // Files that an MPI library writes are new ones, so that a hole in the file shows which bytes
  // were lost.
  job.may_recycle = job.options.write.recycle && !writer_of(job).writes_together();
}

std::string BundleSave::limits_policy(const Job& job) const {
  const auto& writer = writer_of(job);
  if (!writer.writes_together() || !writer.one_file(job, job.sharding)) return "";
  return cat("has no say in data files but those of dense tensors: with ", writer.name(),
             " all shards of a rank go to a file that ranks share, which may become larger than "
             "they are.");
}

void BundleSave::choose_files(const Sharding& sharding, const RefreshedState& state,
                              std::vector<DenseTensor>& dense) const {
  choose_dense_files(sharding, state, dense);
}

void BundleSave::lay_out(const Job& job, const RefreshedState& state, Covered&& covered,
                         SavePlan& plan) const {
  // Frozen tensors get shards, and so files, of their own, which other checkpoints can share; those
  // that became frozen later get others, so that the first files stay as they are.
  constexpr int not_frozen = -1, frozen_by_options = 0;
  std::map<int, std::vector<Task>> frozen;  // by batch; 0: by the options
  if (freezes(job)) {
    for (const auto& task : covered.tasks) {
      const auto& [key, tensor] = state.tensors()[task.tensor];
      if (is_frozen(job, key, tensor)) plan.marked.insert(key);
    }
    const auto batch_of = [&](const Task& task) {
      const auto& [key, tensor] = state.tensors()[task.tensor];
      if (plan.marked.contains(key) && !plan.unchanged->is_thawed(key)) return frozen_by_options;
      const int batch = tensor.strings ? 0 : plan.unchanged->batch_of(key);
      return batch > 0 ? batch : not_frozen;
    };
    const auto first =
        std::stable_partition(covered.tasks.begin(), covered.tasks.end(),
                              [&](const auto& task) { return batch_of(task) == not_frozen; });
    for (auto task = first; task != covered.tasks.end(); ++task) {
      frozen[batch_of(*task)].push_back(std::move(*task));
    }
    for (const auto& one : covered.dense) plan.never_frozen.insert(one.key);
    covered.tasks.erase(first, covered.tasks.end());
  }
  plan.local = run_and_agree(*job.group, [&] {
    for (auto& [batch, tasks] : frozen) {
      auto files = shard(job, state, std::move(tasks), plan.sharding);
      std::move(files.shards.begin(), files.shards.end(), std::back_inserter(plan.frozen.shards));
      plan.frozen.bytes += files.bytes;
    }
    return shard(job, state, std::move(covered.tasks), plan.sharding);
  });
  plan.dense = plan_dense(*job.group, std::move(covered.dense), job.options.write.chunk_bytes,
                          job.places.served_by, {}, job.part_bytes);
  plan.layout = cairn::lay_out(job, plan.local, plan.frozen, plan.dense, plan.sharding);
  // If files are shared, only rank 0 can tell which ones are there; it also begins those in parts.
  const bool asks_root =
      plan.layout.frozen_files > 0 || !plan.dense.files_in_parts(plan.layout.dense_file).empty();
  plan.again = asks_root ? SavePlan::Again::told : SavePlan::Again::alone;
}

SaveFormat::Begun BundleSave::begin(const Job& job, const RefreshedState& state, Draft& draft,
                                    CheckpointMeta& meta, SavePlan&, FileLayout& layout) const {
  return {run_savers(job, state, draft, layout, meta)};
}

// Nothing is cached for a plan that will not be used again, or if sizes change.
JoinedEntries BundleSave::merge(Group& group, EntryList mine, const SavePlan& plan,
                                SaveStatistics& figures) const {
  const bool keeps = figures.plan_reused && !encoding_of(Format::bundle);
  return merge_entries(group, std::move(mine), true, &figures, plan.divided, *plan.gaps,
                       keeps ? plan.merged.get() : nullptr);
}

}  // namespace cairn
