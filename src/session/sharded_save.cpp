// sharded_save and sharded_restore: one checkpoint of a list of tensors with slice specs, as in
// TensorFlow. A save opens an engine of its own and ends it, since its prefix has no later saves.
#include "cairn/sharded_save.hpp"

#include <map>
#include <tuple>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "group/collectives.hpp"
#include "model/follow.hpp"
#include "session/engine.hpp"
#include "session/job/prefix.hpp"
#include "session/objects.hpp"
#include "session/on_mesh.hpp"
#include "session/restore/restore.hpp"
#include "session/save/encode_choice.hpp"

namespace cairn {

namespace {

// The tensor as a slice of a larger one, as its spec says.
LocalTensor placed(LocalTensor tensor, const std::string& name, const std::string& text) {
  if (tensor.refused) throw named(*tensor.refused, name);
  tensor = looked_at(std::move(tensor));
  if (text.empty()) return tensor;
  const auto spec = parse_slice_spec(text);
  if (tensor.strings && !spec.box.is_whole(spec.shape)) {
    throw Error(Code::invalid_argument, cat("string tensor '", name, "' is given as a slice"),
                "strings are saved and restored whole", "Give \"\" and all strings.")
        .of_tensor(name);
  }
  if (spec.box.extent != tensor.shape) {
    throw Error(Code::invalid_argument,
                cat("tensor '", name, "' of shape ", shape_text(tensor.shape),
                    " is given as the slice \"", text, "\""),
                cat("that is one of shape ", shape_text(spec.box.extent)))
        .of_tensor(name);
  }
  tensor.shape = spec.shape;
  for (auto& slice : tensor.slices) {
    std::vector<bool> dash(spec.shape.size());
    for (std::size_t d = 0; d < dash.size(); ++d) {
      slice.box.start[d] += spec.box.start[d];
      // A dimension keeps its "-" only if this slice spans it whole.
      dash[d] = spec.dash[d] && slice.box.extent[d] == spec.shape[d] &&
                (slice.dash.empty() || slice.dash[d]);
    }
    slice.dash = std::move(dash);
  }
  if (tensor.storage == Storage::automatic) tensor.storage = Storage::sliced;
  return tensor;
}

// Tensors of the same name become slices of one tensor, in the order of their first occurrence.
State state_of(const std::vector<std::string>& names, const std::vector<std::string>& specs,
               const std::vector<LocalTensor>& tensors) {
  if (names.size() != tensors.size() || specs.size() != tensors.size()) {
    throw Error(Code::invalid_argument,
                cat(tensors.size(), " tensors are given with ", names.size(), " names and ",
                    specs.size(), " slices"),
                "the three lists go together", "Give \"\" for a tensor that is no slice.");
  }
  std::vector<std::vector<LocalTensor>> parts;
  std::vector<const std::string*> keys;
  std::map<std::string_view, std::size_t> at;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [found, is_new] = at.emplace(names[i], parts.size());
    if (is_new) {
      parts.emplace_back();
      keys.push_back(&names[i]);
    }
    parts[found->second].push_back(placed(tensors[i], names[i], specs[i]));
  }
  State state;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    state.add(*keys[i],
              parts[i].size() == 1 ? std::move(parts[i].front()) : patches(std::move(parts[i])));
  }
  return state;
}

ManagerOptions engine_options(const ShardedOptions& options) {
  if (options.write.chunk_bytes < 4096 || options.write.chunk_bytes > (std::int64_t{64} << 20)) {
    throw Error(Code::invalid_argument,
                cat("WriteOptions::chunk_bytes is ", options.write.chunk_bytes),
                "it must lie between 4096 and 64 MiB");
  }
  // Nothing is removed by retention. A save of the same prefix replaces the checkpoint there.
  ManagerOptions engine{.keep = {.last = 0},
                        .store = options.store,
                        .write = options.write,
                        .restore = {.verify_first = options.verify_first},
                        .overwrite = true};
  auto& check = engine.store.replicas.check;
  if (check == ReplicaCheck::automatic) check = ReplicaCheck::all;
  return engine;
}

// Where the directory is, or will be made. 0: unknown.
std::uint64_t device_of(const Job& job) {
  try {
    for (auto at = job.directory;; at = at.parent_path()) {
      if (const auto found = job.files->status(at)) return found->device;
      if (at == at.parent_path()) return 0;
    }
  } catch (const Error&) {
    return 0;  // the save will find out, and say so on all ranks
  }
}

// Whether to encode is learnt from what earlier saves of this process took there, since each ends
// its engine.
std::shared_ptr<EncodeChoice> lasting_choice(const Job& job) {
  struct Known {
    std::weak_ptr<io::FileSystem> files;
    std::shared_ptr<EncodeChoice> choice;
  };
  static Mutex mutex;
  static std::map<std::tuple<const io::FileSystem*, std::uint64_t, int>, Known> all
      CAIRN_GUARDED_BY(mutex);
  const auto& files = job.options.write.file_system;
  const auto device = device_of(job);
  const MutexLock guard(mutex);
  std::erase_if(
      all, [](const auto& one) { return std::get<0>(one.first) && one.second.files.expired(); });
  auto& known = all[{files.get(), device, job.rank()}];
  if (!known.choice) known = {files, std::make_shared<EncodeChoice>()};
  return known.choice;
}

void require_group(const std::shared_ptr<Group>& group) {
  if (!group) throw Error(Code::invalid_argument, "the group of a mesh is null");
}

}  // namespace

std::string sharded_save(const std::shared_ptr<Group>& given, const Mesh& mesh,
                         const PathText& file_prefix, const std::vector<std::string>& tensor_names,
                         const std::vector<std::string>& shape_and_slices,
                         const std::vector<LocalTensor>& tensors, const ShardedOptions& options) {
  require_group(given);
  const auto group = CallGroup::of(given);
  return collective_call(*group, "sharded_save", [&] {
    group->check_entry();
    require_mesh(*group, mesh);
    const auto prefix = checked_prefix(*group, file_prefix);
    const auto state =
        run_and_agree(*group, [&] { return state_of(tensor_names, shape_and_slices, tensors); });
    const auto all = run_and_agree(*group, [&] { return engine_options(options); });
    std::string saved;
    {
      auto job = make_job(group, prefix.parent_path(),
                          commit::Naming(prefix.filename().string(), false), all);
      // A single prefix is no series of checkpoints, of which a state file would list the newest.
      job.keeps_state_file = false;
      job.options_name = "ShardedOptions";
      if (all.store.codec == StoreCodec::automatic) job.encode_choice = lasting_choice(job);
      Engine engine(std::move(job));
      engine.open();
      saved = engine.save(0, all.store.object_graph
                                 ? with_object_graph(*group, state, std::nullopt, nullptr)
                                 : state);
    }
    group->barrier();  // until rank 0 has tidied up and given up the directory
    return saved;
  });
}

RestoreReport sharded_restore(const std::shared_ptr<Group>& given, const Mesh& mesh,
                              const PathText& file_prefix,
                              const std::vector<std::string>& tensor_names,
                              const std::vector<std::string>& shape_and_slices,
                              const std::vector<LocalTensor>& tensors,
                              const ShardedOptions& options) {
  require_group(given);
  const auto group = CallGroup::of(given);
  return collective_call(*group, "sharded_restore", [&] {
    group->check_entry();
    require_mesh(*group, mesh);
    const auto prefix = checked_prefix(*group, file_prefix);
    auto state =
        run_and_agree(*group, [&] { return state_of(tensor_names, shape_and_slices, tensors); });
    const auto all = run_and_agree(*group, [&] { return engine_options(options); });
    auto job = make_job(group, prefix.parent_path(),
                        commit::Naming(prefix.filename().string(), false), all);
    // A restore needs no owner, so there is no engine: nodes and io ranks are all that ranks must
    // agree on.
    agree_on_nodes(job);
    agree_on_io_ranks(job);
    const auto seen = viewed(std::move(job));
    return restore_state(seen, share_index(seen, prefix), state, options.restore);
  });
}

}  // namespace cairn
