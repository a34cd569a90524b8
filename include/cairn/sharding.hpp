#pragma once
/// How a task's tensors are grouped into shards: TensorFlow's sharding callbacks.
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

/// One slice of a tensor on one task, as a sharding callback sees it. No data: `owner` and
/// `owner_slice` lead back to the state.
struct ShardableTensor {
  std::string name;  ///< for people: what State::name gave, else the key
  std::string key;   ///< checkpoint key
  DType dtype{};
  Dims shape;       ///< global shape
  Box slice;        ///< the part of it, in global coordinates
  DeviceTask task;  ///< and the device in it whose memory the slice is in
  /// Index of the tensor in the State that the rank gave to the save (of sharded_save: among its
  /// distinct names). Nothing for what a save adds of its own: an object graph, TensorFlow's
  /// save_counter.
  std::optional<std::size_t> owner = std::nullopt;
  std::size_t owner_slice = 0;  ///< index of the slice in it; a re-sliced tensor keeps its parent's
  std::int64_t bytes = 0;       ///< of the slice (of string tensors: as stored)
};

/// One line: "'w' float32[3 2], slice 3 2 0,2:0,2, 16 B on /job:…".
std::ostream& operator<<(std::ostream& out, const ShardableTensor& tensor);

/// What one task writes into one data file: key → slice → tensor.
using Shard = std::map<std::string, std::map<Box, ShardableTensor>>;

/// For policies that cut: the same tensor with only this part of its slice. Throws sharding where
/// `slice` leaves the tensor's own slice, or where a string tensor would be cut.
ShardableTensor piece_of(const ShardableTensor& tensor, Box slice);
/// Files a tensor under its key and slice. Throws sharding when they are there already.
void add_to(Shard& shard, ShardableTensor tensor);

/// A sharding policy. It is called once for each task that has slices to write (job, replica,
/// task: a rank is one, unless device_of says otherwise), on its rank, with the tensors of all the
/// task's devices, in state order; ranks' calls know nothing of each other. PerDevicePolicy makes
/// it one call a device. Dense tensors (see Storage) belong to no task: dense_files decides about
/// them.
///
/// It may group, order and re-slice; it may not drop, add or change one: validate_shards holds it
/// to that after each call. Each shard becomes a data file, in the order returned; empty ones are
/// left out. What it throws on one rank is one error on all ranks.
class ShardingCallback {
 public:
  virtual ~ShardingCallback() = default;
  /// Stored in the checkpoint and named in errors.
  virtual std::string description() const = 0;
  /// All parameters that decide what the callback makes of given tensors, as text; "" if there are
  /// none. Nothing (the default): they are not known, and the callback is called for every save.
  virtual std::optional<std::string> parameters() const { return std::nullopt; }
  virtual std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const = 0;

  /// Which data file each of the job's dense tensors goes to: a number (≥ 0) for each of them. The
  /// files come behind those of the shards, in ascending order of the numbers, and hold nothing
  /// else; an entry has one data file, so dense tensors are not cut. Called on rank 0, for a
  /// bundle, with one tensor or more, ascending by key, each whole; `task` and `owner` say nothing.
  /// What it throws is one error on all ranks. By default all go to one file.
  virtual std::vector<int> dense_files(const std::vector<ShardableTensor>& tensors) const;

  /// Made of description and parameters: callbacks with the same one treat the same tensors alike.
  /// Nothing when the parameters are not stated. Ranks must agree on it when a manager is made.
  std::optional<std::string> fingerprint() const;
};

/// A policy made of a function, such as a lambda. `parameters` as there: none given, and the
/// function is called for every save. Throws invalid_argument for a null function.
std::shared_ptr<const ShardingCallback> sharding_policy(
    std::string description,
    std::function<std::vector<Shard>(const std::vector<ShardableTensor>&)> function,
    std::optional<std::string> parameters = std::nullopt);

/// All tensors of a task in one shard, whatever devices they are on: the default.
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
  /// Nothing given: ShardByTaskPolicy, which makes one shard a device.
  explicit PerDevicePolicy(std::shared_ptr<const ShardingCallback> policy = nullptr);
  std::string description() const override;
  std::optional<std::string> parameters() const override;
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override;
  std::vector<int> dense_files(const std::vector<ShardableTensor>& tensors) const override;

 private:
  std::shared_ptr<const ShardingCallback> policy_;
};

/// Shards of at most so many bytes of tensors (a data file may have gaps of less than a page
/// besides). A slice that does not fit is cut along its first dimension, and where one index of
/// that is still too large, along the next ones; always ends, whatever the shapes.
///
/// How many shards: at most ceil(total / maximum) + 1 a task, as long as every tensor may be cut.
/// Shards hold whole elements, so `maximum` counts as the largest multiple of the largest element
/// (16 bytes or less) that is not above it. An element larger than the maximum is an error
/// (invalid_argument).
///
/// Not cut are strings, and the dtypes that TensorFlow cannot assemble from slices (half, uint16,
/// uint32, uint64, float8, int2, uint2, float4, qint16, quint16). One that is larger than the
/// maximum gets a shard of its own, which is then larger than the maximum too, and is named in a
/// warning in the log, once a key. Smaller ones, and tensors without elements, are packed whole and
/// share shards with the rest. They come on top of the bound, whose total leaves them out: one
/// shard for each that is too large, and for the others fewer than 2 · (their bytes) / maximum + 1.
///
/// Dense tensors of the job are packed whole in the same way, with the same warning, into data
/// files of their own. Where ranks share data files (Writer::mpi_io) only these are limited, and an
/// HDF5 checkpoint is one file: a warning says so when a manager is made.
class MaxShardSizePolicy : public ShardingCallback {
 public:
  /// Throws invalid_argument unless the limit is positive.
  explicit MaxShardSizePolicy(std::int64_t max_shard_size_bytes);
  std::string description() const override;
  std::optional<std::string> parameters() const override;
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override;
  std::vector<int> dense_files(const std::vector<ShardableTensor>& tensors) const override;

 private:
  struct Warned;
  std::int64_t max_bytes_;
  std::shared_ptr<Warned> warned_;  ///< keys, under a lock: ranks may be threads
};

/// Checks what a callback returned against what it was given. Throws Code::sharding, naming the
/// callback, the key, the slice and both values, when
///  1. a key and slice is found twice, or re-sliced pieces overlap,
///  2. a key was not among the tensors given,
///  3. a shape was altered, or a piece leaves the slices that were given,
///  4. a dtype was altered,
///  5. a task was altered (another device of the same task is none),
///  6. one shard holds tensors of different tasks (different devices of one task may share one),
///  7. a tensor, or part of a slice, is missing from the shards.
/// Re-sliced tensors are compared as sets of elements: same union, nothing twice. Each piece is cut
/// from one given slice and keeps its owner; slices given apart are not joined. String tensors and
/// slices without elements come back as they were. `bytes` is not looked at.
void validate_shards(const std::vector<Shard>& shards, const std::vector<ShardableTensor>& given,
                     const std::string& callback_description);

}  // namespace cairn
