#pragma once
/// Copies what a node has of a run's checkpoints to the run's directory, before the node is given
/// up.
#include <cstdint>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

struct FlushedNode {
  /// The steps of the checkpoints of which the node has parts; for each name, the newest first.
  std::vector<std::int64_t> steps;
  /// Saves whose map cannot be read here. The maps of other nodes may be used instead.
  std::vector<io::Path> without_map;
  int files = 0;  ///< files that were copied; others were there already
  std::int64_t bytes = 0;
};

/// Runs in one process a node, without messages: several may run at once, and again after one was
/// killed. Copies parts, parity and maps unchanged to HOME/.cairn/pieces; each file is durable
/// before it gets its name. The next job that opens HOME with a tier uses them as if they were
/// still on the nodes. `tier` and `node` are as in TierOptions. Throws not_found if nothing was
/// ever saved on nodes for HOME, or if this node has nothing.
FlushedNode flush_node(const Address& home, const std::string& tier, const std::string& node);

}  // namespace cairn
