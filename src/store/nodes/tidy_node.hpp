#pragma once
/// What a node still has of checkpoints that nobody will ever ask for.
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
  std::vector<Gone> gone;         ///< removed; or, of a dry run, what would be
  std::vector<std::string> left;  ///< what stays that may be worthless, and why
};

/// One process a node, no messages. Removes what the node has of runs whose directory was removed
/// or made anew, and of others what saves that died have left, unless a job is running there. What
/// a run can still use stays, and so does all of a run whose directory cannot be seen because its
/// file system may be away. `tier`, `node`: as TierOptions has them. Throws not_found if the node
/// has no such directory.
TidiedNode tidy_node(const Address& tier, const std::string& node, bool dry_run);

}  // namespace cairn
