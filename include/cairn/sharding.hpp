#pragma once
/// How a task's tensors are grouped into shards: TensorFlow's sharding callbacks.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/device.hpp"
#include "cairn/dtype.hpp"

namespace cairn {

/// One slice of a tensor on one task, as a sharding callback sees it. No data: `owner` and
/// `owner_slice` lead back to the state.
struct ShardableTensor {
  std::string name;  ///< for people; the key unless the caller gave another
  std::string key;   ///< checkpoint key
  DType dtype{};
  Dims shape;  ///< global shape
  Box slice;   ///< the part of it, in global coordinates
  DeviceTask task;
  std::size_t owner = 0;        ///< index of the tensor in the rank's State
  std::size_t owner_slice = 0;  ///< index of the slice in it; a re-sliced tensor keeps its parent's
  std::int64_t bytes = 0;       ///< of the slice (of string tensors: as stored)
};

/// What one task writes into one data file: key → slice → tensor.
using Shard = std::map<std::string, std::map<Box, ShardableTensor>>;

/// A sharding policy. It is called once for each device task of a rank whose slices are to be
/// written, on that rank, with the tensors in state order. It may group, order and re-slice; it may
/// not drop, add or change one: validate_shards holds it to that after each call.
class ShardingCallback {
 public:
  virtual ~ShardingCallback() = default;
  /// Stored in the checkpoint and named in errors.
  virtual std::string description() const = 0;
  virtual std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const = 0;
};

/// All tensors of a task in one shard: the default.
class ShardByTaskPolicy : public ShardingCallback {
 public:
  std::string description() const override;
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override;
};

/// Checks what a callback returned against what it was given. Throws Code::sharding, naming the
/// callback, the key, the slice and both values, when
///  1. a key and slice is found twice, or re-sliced pieces overlap,
///  2. a key was not among the tensors given,
///  3. a shape was altered, or a piece leaves the slices that were given,
///  4. a dtype was altered,
///  5. a task was altered,
///  6. one shard holds tensors of different tasks,
///  7. a tensor, or part of a slice, is missing from the shards.
/// Re-sliced tensors are compared as sets of elements: same union, nothing twice. Each piece is cut
/// from one given slice and keeps its owner; slices given apart are not joined. String tensors and
/// slices without elements come back as they were. `bytes` is not looked at.
void validate_shards(const std::vector<Shard>& shards, const std::vector<ShardableTensor>& given,
                     const std::string& callback_description);

}  // namespace cairn
