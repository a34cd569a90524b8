#pragma once
/// One checkpoint of tensors on a mesh, without a manager: DTensor's sharded_save, with slices.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/mesh.hpp"
#include "cairn/path_text.hpp"

namespace cairn {

/// The groups are those of ManagerOptions (cairn/options.hpp). By default all bytes of replicas are
/// compared, since no later save could compare the rest. With ReplicaCheck::sample, each save to
/// the same prefix compares the next sample.
struct ShardedOptions {
  StoreOptions store = {};
  WriteOptions write = {};
  bool verify_first = false;    ///< for sharded_restore, as in RestartOptions
  RestoreOptions restore = {};  ///< for sharded_restore: into less or more
};

/// Saves tensors[i] under tensor_names[i] to FILE_PREFIX.index and its data files, and replaces a
/// checkpoint there. Collective; the group has as many ranks as the mesh. The merge begins when all
/// ranks have written. On return, on any rank, the checkpoint is complete and durable, and every
/// directory operation is done. If it fails, it fails on all ranks, and an older checkpoint there
/// stays.
///
/// shape_and_slices[i] is "", or says in TensorFlow's spelling which slice of a larger tensor this
/// one is: "40 30 0,20:-" with a tensor of shape [20 30]. It may differ from rank to rank, and a
/// name may come several times with different slices; all of them together make up the tensor. Each
/// slice is stored as it is spelled, unless its tensor asks to be dense.
///
/// Throws invalid_argument for lists of different lengths, a slice that is malformed or not of its
/// tensor's shape, and whatever State::add refuses; coverage, disagreement and other errors as
/// CheckpointManager::save does. Returns the prefix as an absolute path.
std::string sharded_save(const std::shared_ptr<Group>& group, const Mesh& mesh,
                         const PathText& file_prefix, const std::vector<std::string>& tensor_names,
                         const std::vector<std::string>& shape_and_slices,
                         const std::vector<LocalTensor>& tensors,
                         const ShardedOptions& options = {});

/// Restores a checkpoint of any origin and any layout into the memory of the tensors. Collective.
/// Throws what CheckpointManager::restore throws; not_found if there is no such checkpoint. While a
/// save without atomic renames replaces the checkpoint, or after that save died, the older one is
/// restored, with a warning in the log.
RestoreReport sharded_restore(const std::shared_ptr<Group>& group, const Mesh& mesh,
                              const PathText& file_prefix,
                              const std::vector<std::string>& tensor_names,
                              const std::vector<std::string>& shape_and_slices,
                              const std::vector<LocalTensor>& tensors,
                              const ShardedOptions& options = {});

}  // namespace cairn
