#pragma once
/// From what a state says to what the exchange knows: plain tensors of the stored dtype and shape.
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"
#include "checkpoint/find_tensor.hpp"

namespace cairn {

struct WantedTensor {
  int stored = 0;      ///< index into contents.tensors
  LocalTensor tensor;  ///< slices in coordinates of the stored tensor
};

/// What this rank wants of a checkpoint.
struct WantedState {
  std::vector<WantedTensor> tensors;
  std::vector<std::string> kept;  ///< keys that are not there and need not be
};

/// Collective. Every check that needs no data; nothing is touched. Throws disagreement if options
/// differ between ranks, not_found for a key that is not there and must be, invalid_argument for
/// dtypes, shapes and offsets that do not fit, and for const memory.
WantedState resolve(Group&, const CheckpointContents&, const TensorFinder&, const State&,
                    const RestoreOptions&);

}  // namespace cairn
