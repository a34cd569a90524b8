#pragma once
/// One checkpoint of tensors on a mesh, without a manager: DTensor's sharded_save, with slices.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/mesh.hpp"

namespace cairn {

/// The groups are those of ManagerOptions (cairn/options.hpp). Replicas are by default compared
/// whole: there are no later saves to compare the rest. With ReplicaCheck::sample, saves over one
/// prefix take the samples in turn.
struct ShardedOptions {
  StoreOptions store = {};
  WriteOptions write = {};
  bool verify_first = false;    ///< of sharded_restore, as in RestartOptions
  RestoreOptions restore = {};  ///< of sharded_restore: into less or more
};

/// Saves tensors[i] under tensor_names[i] to FILE_PREFIX.index and its data files, over what is
/// there. Collective; the group has as many ranks as the mesh. The merge begins when all ranks have
/// written. On return, on any rank, the checkpoint is complete and durable, and every directory
/// operation is done. If it fails, it fails on all ranks, and what was there before still is.
///
/// shape_and_slices[i] is "", or says in TensorFlow's spelling which slice of a larger tensor this
/// one is: "40 30 0,20:-" with a tensor of shape [20 30]. It may differ from rank to rank, and a
/// name may come several times with different slices; all of them together make up the tensor. They
/// are stored as they are spelled, unless a tensor asks to be dense.
///
/// Throws invalid_argument for lists of different lengths, a slice that is malformed or not of its
/// tensor's shape, and whatever State::add refuses; coverage, disagreement and the rest like
/// CheckpointManager::save. Returns the prefix as an absolute path.
std::string sharded_save(const std::shared_ptr<Group>& group, const Mesh& mesh,
                         const std::filesystem::path& file_prefix,
                         const std::vector<std::string>& tensor_names,
                         const std::vector<std::string>& shape_and_slices,
                         const std::vector<LocalTensor>& tensors,
                         const ShardedOptions& options = {});

/// The reverse, from a checkpoint of any origin and any layout, into the memory of the tensors.
/// Collective. Throws like CheckpointManager::restore; not_found if there is no such checkpoint.
/// While a save without atomic renames replaces the checkpoint, or after that save died, the older
/// one is restored, with a warning in the log.
RestoreReport sharded_restore(const std::shared_ptr<Group>& group, const Mesh& mesh,
                              const std::filesystem::path& file_prefix,
                              const std::vector<std::string>& tensor_names,
                              const std::vector<std::string>& shape_and_slices,
                              const std::vector<LocalTensor>& tensors,
                              const ShardedOptions& options = {});

}  // namespace cairn
