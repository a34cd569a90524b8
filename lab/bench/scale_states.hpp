#pragma once
/// States like those of large jobs, but small on each rank: only their structure matters. A rank
/// has at least 4 KiB, so that files are worth keeping for the next save.
#include <memory>
#include <string>
#include <vector>

#include "cairn/state.hpp"

namespace cairn::bench {

/// A rank's part of a state, and its memory.
struct ScaleState {
  State state;
  std::int64_t step = 1;
  std::vector<std::vector<double>> values;
  std::vector<std::int64_t> names;
};

/// grid: one tensor in blocks, one a rank. amr: three levels, of which each rank has 100 patches in
/// all, dealt out like cards. train: 2,000 tensors on a mesh of 16 stages of a pipeline, 2 shards
/// of each layer, and replicas; half of the tensors are replicated over these, half are sharded
/// over them, too. particles: rows that are counted on each rank. All have a step. `holding`: so
/// many times fewer ranks hold the same state. Throws invalid_argument for another kind.
std::unique_ptr<ScaleState> make_scale_state(const std::string& kind, int rank, int ranks,
                                             int holding = 1);
const std::vector<std::string>& scale_states();

}  // namespace cairn::bench
