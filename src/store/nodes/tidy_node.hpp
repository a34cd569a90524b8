#pragma once
/// Removes what a node still has of checkpoints that nobody can use any more.
#include <cstdint>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

struct TidiedNode {
  struct Gone {
    io::Path path;
    std::int64_t bytes = 0;
    std::string why;
  };
  std::vector<Gone> gone;         ///< what was removed, or in a dry run what would be
  std::vector<std::string> left;  ///< what stays although it may be of no use, and why
};

/// Runs in one process a node, without messages. Removes what the node has of runs whose directory
/// was removed or made again, and of other runs what saves that died have left, unless a job is
/// running there. What a run can still use stays; so does all of a run whose directory cannot be
/// seen, if its file system may be away. `tier` and `node` are as in TierOptions. Throws not_found
/// if the node has no such directory.
TidiedNode tidy_node(const Address& tier, const std::string& node, bool dry_run);

}  // namespace cairn
