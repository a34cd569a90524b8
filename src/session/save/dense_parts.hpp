#pragma once
/// Files of dense tensors that ranks write in parts: who writes which part.
#include <cstdint>
#include <functional>
#include <vector>

#include "exchange/chunks.hpp"
#include "session/save/dense.hpp"

namespace cairn {

/// The most bytes of a run in a file of this size. It is a quarter of a stretch: so each stretch
/// has the beginning of a run, and no part but the last is much shorter than a stretch.
std::int64_t most_in_run(std::int64_t file_bytes, std::int64_t part_bytes);

/// The writers of the parts of all files.
class PartWriters {
 public:
  /// Collective. Fills in `plan.parts`. The rank that has most of a part writes it; ranks that have
  /// about as much take turns. `cut`: how a tensor is cut into runs.
  PartWriters(Group&, DensePlan& plan, std::int64_t part_bytes,
              const std::function<plan::ChunkCut(std::size_t tensor)>& cut);

  /// Of the run that begins at this byte of the tensor.
  int operator()(const DensePlan&, int tensor, std::int64_t offset) const;

 private:
  // The index of the part among those of all files.
  std::size_t part_of(const DensePlan&, std::size_t tensor, std::int64_t offset) const;

  std::vector<std::int64_t> first_;  // of each file's parts among all
  std::vector<int> writers_;
};

}  // namespace cairn
