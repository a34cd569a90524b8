#pragma once
/// The numeric half of a restore: reads, checks and places through the exchange engine.
#include <cstdint>
#include <vector>

#include "contents/contents_reader.hpp"
#include "job/job.hpp"

namespace cairn {

/// What one rank wants, of which stored slices.
struct Wants {
  struct Part {
    int tensor;  ///< index into contents.tensors
    int slice;
    int id;  ///< of the box
  };
  std::vector<Box> boxes;  ///< by id: which slice memory
  std::vector<Part> parts;

  /// More boxes, all of one tensor, and where they are stored.
  void add(int tensor, const std::vector<Box>& more, const std::vector<StoredPart>& stored);
};

/// Collective. `wants` and `memories`, by id, are this rank's. Without `place` the wanted slices
/// are read and checked, and no memory is touched. Returns the bytes that this rank read.
std::int64_t restore_tensors(const Job&, const CheckpointContents&, const Wants& wants,
                             const std::vector<const LocalSlice*>& memories, bool place, DirectIo);

}  // namespace cairn
