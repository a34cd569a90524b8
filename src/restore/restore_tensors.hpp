#pragma once
/// The numeric half of a restore: reads, checks and places through the exchange engine.
#include <cstdint>
#include <vector>

#include "job/job.hpp"

namespace cairn {

/// What one rank wants of one stored tensor.
struct Want {
  int tensor;  ///< index into contents.tensors
  Box box;
  int rank;
  int id;  ///< on that rank: which slice memory
};

/// Collective. `wants` is the same on all ranks; `memories` is this rank's, by id. Without `place`
/// the wanted slices are read and checked, and no memory is touched. Returns the bytes that this
/// rank read.
std::int64_t restore_tensors(const Job&, const CheckpointContents&, const std::vector<Want>& wants,
                             const std::vector<const LocalSlice*>& memories, bool place, DirectIo);

}  // namespace cairn
