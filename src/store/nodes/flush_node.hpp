#pragma once
/// What a node has of a run's checkpoints, brought to the run's directory before the node goes.
#include <cstdint>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

struct FlushedNode {
  /// Of checkpoints that the node has parts of; of each name the newest first.
  std::vector<std::int64_t> steps;
  /// Whose map cannot be read here: other nodes' maps may do.
  std::vector<io::Path> without_map;
  int files = 0;  ///< copied; others were there already
  std::int64_t bytes = 0;
};

/// One process a node, no messages: several may run at once, and again after one was killed. Copies
/// parts, parity and maps as they are to HOME/.cairn/pieces, each file durable before it has its
/// name; the next job that opens HOME with a tier takes them for what the nodes had. `tier`,
/// `node`: as TierOptions has them. Throws not_found if nothing was ever saved on nodes for HOME,
/// or if this node has nothing.
FlushedNode flush_node(const Address& home, const std::string& tier, const std::string& node);

}  // namespace cairn
