#pragma once
/// Checkpoints as tf.train.Checkpoint makes them: a state is saved under a prefix that the caller
/// names, numbered or not, and restored from any path, as far as state and checkpoint have the same
/// keys.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/mesh.hpp"
#include "cairn/path_text.hpp"

namespace cairn {

/// The groups are those of ManagerOptions (cairn/options.hpp).
struct CheckpointOptions {
  StoreOptions store = {};
  WriteOptions write = {};
  AsyncOptions async = {};  ///< for save_async
  Hooks hooks = {};
  /// save(): replace a checkpoint of the same number. (write() always replaces.)
  bool overwrite = false;
  bool verify_first = false;  ///< as in RestartOptions
};

/// The result of a restore: which keys of state and checkpoint matched. Copies refer to the same
/// restore. Members that are not marked collective give the same answer on all ranks.
///
/// fill() fills tensors that were added to the state after the restore from the same checkpoint;
/// the assertions call it first. So tensors may be created when their shapes are known. All ranks
/// that shall have rows of a ragged key must add it before the same restore or fill: a rank that
/// adds it later makes fill() throw invalid_argument on all ranks, since the rows are dealt
/// already.
class LoadStatus {
 public:
  const std::string& prefix() const;
  /// Keys that are in the checkpoint and, so far, in no rank's state.
  const std::vector<std::string>& unused_keys() const;
  /// Keys that are in the state of some rank and not in the checkpoint: memory stays as it was.
  const std::vector<std::string>& missing_keys() const;

  /// The checkpoint's object graph, for State::carry(); null: it has none that can be read.
  const std::shared_ptr<const ObjectGraph>& graph() const;

  /// Collective. Restores the tensors that were added to the state since the restore. Does nothing
  /// if there are none.
  const LoadStatus& fill() const;

  /// Collective. Each returns *this or throws not_found, naming the keys. Missing keys that
  /// RestoreOptions allowed to be missing (may_be_missing, all_may_be_missing) fail none.
  const LoadStatus& assert_consumed() const;                  ///< neither list has any other key
  const LoadStatus& assert_existing_objects_matched() const;  ///< all of the state was found
  const LoadStatus& assert_nontrivial_match() const;          ///< something was found
  /// Says that unused keys are no mistake; else rank 0 logs a warning when the status ends without
  /// an assertion.
  const LoadStatus& expect_partial() const;

 private:
  friend class Checkpoint;
  struct Impl;
  explicit LoadStatus(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

/// A state with a save counter. Members that save or restore are collective, with the same
/// arguments on all ranks; the promises of CheckpointManager about errors and crashes hold here.
/// While the object lives, rank 0 owns the directory that it saved to last. Checkpoints of this
/// process under other names may lie in the same directory. Several objects with the same Group may
/// save under one name, in turn: they share the knowledge of the directory and, with the same
/// options, the plan. Each counts its own saves.
class Checkpoint {
 public:
  /// The state must live as long as this object and its statuses. It may grow. With a mesh, which
  /// must have as many ranks as the group, slices made by its layouts belong to this job.
  Checkpoint(std::shared_ptr<Group> group, State& state, CheckpointOptions options = {});
  Checkpoint(std::shared_ptr<Group> group, const Mesh& mesh, State& state,
             CheckpointOptions options = {});
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  /// Saves PREFIX-N, where N is one more than the last, with the counter under "save_counter", and
  /// writes the state file `checkpoint`. Returns the path. A failed save does not use up a number.
  std::string save(const PathText& prefix, const SaveOptions& options = {});
  /// Copies the state and returns, as CheckpointManager::save_async does. The save uses up its
  /// number even if it fails later, but not if it is skipped (AsyncOptions::when_busy). The next
  /// call that saves, restores, polls or waits, of this object or another one that saves under this
  /// name, commits the save or throws why it failed.
  SaveHandle save_async(const PathText& prefix, const SaveOptions& options = {});
  bool poll();  ///< as CheckpointManager::poll: true if no save is pending
  void wait();  ///< returns when no save is pending
  /// Saves PREFIX itself and replaces a checkpoint there; writes no counter and no state file.
  std::string write(const PathText& prefix, const SaveOptions& options = {});

  /// Restores a checkpoint of save(), including the counter, from a prefix or a SavedModel's
  /// directory. A checkpoint without an object graph, as TensorFlow 1 made them, has no counter:
  /// then the counter stays as it is. Keys that only the state or only the checkpoint has are
  /// listed in the status; they are no error unless one of its assertions is called. Throws
  /// not_found if there is no checkpoint; invalid_argument for dtypes and shapes that differ,
  /// unless the options convert; data_loss. It does not recover the directory: while a save without
  /// atomic renames replaces the checkpoint, or after that save died, the older checkpoint is
  /// restored, with a warning in the log.
  LoadStatus restore(const PathText& path, const RestoreOptions& options = {});
  /// The same without the counter, for a checkpoint of write().
  LoadStatus read(const PathText& path, const RestoreOptions& options = {});

  std::int64_t save_counter() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Collective. The newest checkpoint by the directory's `checkpoint` state file, as
/// tf.train.latest_checkpoint finds it: an absolute path, or nothing. It reads no data;
/// CheckpointManager::restore_latest does. It also returns a checkpoint whose index somebody has
/// removed, so that the restore names the missing file instead of finding nothing.
std::optional<std::string> latest_checkpoint(const std::shared_ptr<Group>& group,
                                             const PathText& directory,
                                             std::shared_ptr<io::FileSystem> file_system = nullptr);

}  // namespace cairn
