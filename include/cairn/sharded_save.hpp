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

struct ShardedOptions {
  std::int64_t chunk_bytes = std::int64_t{16} << 20;  ///< as ManagerOptions
  IoRanks io_ranks = {};                              ///< as ManagerOptions
  Writer writer = Writer::posix;                      ///< as ManagerOptions
  MpiIoOptions mpi_io = {};                           ///< as ManagerOptions
  bool verify_first = false;                          ///< of sharded_restore
  RestoreOptions restore = {};                        ///< of sharded_restore: into less or more
  /// As ManagerOptions, but by default everything is compared: there are no later saves to compare
  /// the rest. With `sample`, saves over one prefix take the samples in turn.
  ReplicaOptions replicas = {.check = ReplicaCheck::all};
  bool atomic_rename = true;  ///< as ManagerOptions
  double owner_wait_seconds = 10;
  std::shared_ptr<const ShardingCallback> policy = nullptr;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  ///< none: POSIX
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
