#pragma once
/// Sharding callbacks, as in TensorFlow: they group a task's tensors into shards.
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/device.hpp"
#include "cairn/dtype.hpp"

namespace cairn {

/// One slice of a tensor on one task, as a sharding callback sees it. It has no data: `owner` and
/// `owner_slice` lead back to the state.
struct ShardableTensor {
  std::string name;  ///< for people: the name that State::name gave, else the key
  std::string key;   ///< checkpoint key
  DType dtype{};
  Dims shape;       ///< global shape
  Box slice;        ///< the box of the slice, in global coordinates
  DeviceTask task;  ///< the task, and its device whose memory has the slice
  /// Index of the tensor in the State that the rank gave to the save (in sharded_save: among its
  /// distinct names). Nothing for tensors that the save adds: an object graph, TensorFlow's
  /// save_counter.
  std::optional<std::size_t> owner = std::nullopt;
  std::size_t owner_slice = 0;  ///< index of the slice in that tensor; a piece keeps its parent's
  std::int64_t bytes = 0;       ///< bytes of the slice (string tensors: as stored)
};

/// One line: "'w' float32[3 2], slice 3 2 0,2:0,2, 16 B on /job:…".
std::ostream& operator<<(std::ostream& out, const ShardableTensor& tensor);

/// What one task writes into one data file: key → slice → tensor.
using Shard = std::map<std::string, std::map<Box, ShardableTensor>>;

/// For policies that cut: the same tensor with only this part of its slice. Throws sharding if
/// `slice` leaves the tensor's own slice, or if a string tensor would be cut.
ShardableTensor piece_of(const ShardableTensor& tensor, Box slice);
/// Adds a tensor under its key and slice. Throws sharding if they are there already.
void add_to(Shard& shard, ShardableTensor tensor);

/// A sharding policy. It is called once for each task that has slices to write (job, replica, task:
/// a rank is one, unless device_of says otherwise), on its rank, with the tensors of all the task's
/// devices, in state order; the calls of different ranks are independent. PerDevicePolicy makes one
/// call per device. Dense tensors (see Storage) belong to no task: dense_files chooses their files.
///
/// It may group, order and re-slice tensors; it may not drop, add or change one: validate_shards
/// checks that after each call. Each shard becomes a data file, in the order returned; empty ones
/// are left out. An exception on one rank becomes one error on all ranks.
class ShardingCallback {
 public:
  virtual ~ShardingCallback() = default;
  /// Stored in the checkpoint and named in errors.
  virtual std::string description() const = 0;
  /// All parameters on which the result for given tensors depends, as text; "" if there are none.
  /// Nothing (the default): they are not known, and the callback is called for every save.
  virtual std::optional<std::string> parameters() const { return std::nullopt; }
  virtual std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const = 0;

  /// Chooses the data file of each of the job's dense tensors: returns a number (≥ 0) for each of
  /// them. These files come after those of the shards, in ascending order of the numbers, and hold
  /// nothing else; an entry has one data file, so dense tensors are not cut. Called on rank 0, for
  /// a bundle, with one tensor or more, ascending by key, each whole; `task` and `owner` have no
  /// meaning. An exception becomes one error on all ranks. By default all go to one file.
  virtual std::vector<int> dense_files(const std::vector<ShardableTensor>& tensors) const;

  /// A text of description and parameters: callbacks with the same fingerprint treat the same
  /// tensors alike. Nothing if the parameters are not known. Ranks must have the same one when a
  /// manager is made.
  std::optional<std::string> fingerprint() const;
};

/// A policy made from a function, such as a lambda. `parameters` is as in ShardingCallback: without
/// it the function is called for every save. Throws invalid_argument for a null function.
std::shared_ptr<const ShardingCallback> sharding_policy(
    std::string description,
    std::function<std::vector<Shard>(const std::vector<ShardableTensor>&)> function,
    std::optional<std::string> parameters = std::nullopt);

/// The default: all tensors of a task, on any device, in one shard.
class ShardByTaskPolicy : public ShardingCallback {
 public:
  std::string description() const override;
  std::optional<std::string> parameters() const override;
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override;
};

/// Calls another policy once for each device of a task instead of once for the task, so that no
/// shard, and no data file, has tensors of two devices. Devices come in ascending order.
class PerDevicePolicy : public ShardingCallback {
 public:
  /// Null: ShardByTaskPolicy, which makes one shard per device.
  explicit PerDevicePolicy(std::shared_ptr<const ShardingCallback> policy = nullptr);
  std::string description() const override;
  std::optional<std::string> parameters() const override;
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override;
  std::vector<int> dense_files(const std::vector<ShardableTensor>& tensors) const override;

 private:
  std::shared_ptr<const ShardingCallback> policy_;
};

/// Makes shards of at most so many bytes of tensors (a data file may have gaps of less than a page
/// besides). A slice that does not fit is cut along its first dimension and, if one index of that
/// is still too large, along the next ones; this ends for all shapes.
///
/// A task has at most ceil(total / maximum) + 1 shards, if every tensor may be cut. Shards hold
/// whole elements, so `maximum` counts as the largest multiple of the largest element (16 bytes or
/// less) that is not above it. An element larger than the maximum is an error (invalid_argument).
///
/// Strings are not cut, nor are tensors of dtypes that TensorFlow cannot assemble from slices
/// (half, uint16, uint32, uint64, float8, int2, uint2, float4, qint16, quint16). Such a tensor that
/// is larger than the maximum gets a shard of its own, which is then larger than the maximum too; a
/// warning in the log names it, once per key. Smaller ones, and tensors without elements, are
/// packed whole and share shards with the rest. The bound above does not count them: they add one
/// shard for each that is too large, and for the others fewer than 2 · (their bytes) / maximum + 1.
///
/// Dense tensors of the job are packed whole in the same way, with the same warning, into data
/// files of their own. If ranks share data files (Writer::mpi_io), only files of dense tensors are
/// limited, and an HDF5 checkpoint is one file: a manager warns of that when it is made.
class MaxShardSizePolicy : public ShardingCallback {
 public:
  /// The limit is in bytes. Throws invalid_argument unless it is positive.
  explicit MaxShardSizePolicy(std::int64_t max_shard_size_bytes);
  std::string description() const override;
  std::optional<std::string> parameters() const override;
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override;
  std::vector<int> dense_files(const std::vector<ShardableTensor>& tensors) const override;

 private:
  struct Warned;
  std::int64_t max_bytes_;
  std::shared_ptr<Warned> warned_;  ///< keys, guarded by a lock: ranks may be threads
};

/// Compares the shards that a callback returned with the tensors that it was given. Throws
/// Code::sharding, naming the callback, the key, the slice and both values, if
///  1. a key and slice is found twice, or re-sliced pieces overlap,
///  2. a key was not among the tensors given,
///  3. a shape was altered, or a piece leaves the slices that were given,
///  4. a dtype was altered,
///  5. a task was altered (another device of the same task is allowed),
///  6. one shard holds tensors of different tasks (different devices of one task may share one),
///  7. a tensor, or part of a slice, is missing from the shards.
/// Re-sliced tensors are compared as sets of elements: same union, nothing twice. Each piece must
/// be cut from one given slice and keep its owner; different given slices must not be joined.
/// String tensors and slices without elements must come back as they were. `bytes` is ignored.
void validate_shards(const std::vector<Shard>& shards, const std::vector<ShardableTensor>& given,
                     const std::string& callback_description);

}  // namespace cairn
