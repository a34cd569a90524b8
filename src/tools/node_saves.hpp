#pragma once
/// Checkpoints on nodes, as one process can see them.
#include <cstdint>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

struct NodeSave {
  std::string name;  ///< name of the checkpoints
  std::int64_t step = 0, sequence = 0;
  int ranks = 0, nodes = 0;  ///< of the job that saved
  int nodes_seen = 0;        ///< nodes whose parts are all there
  /// Those of them that were copied to the run's directory.
  int nodes_brought = 0;
  std::vector<std::string> not_seen = {};  ///< names of the other nodes, if they are known
  std::int64_t bytes = 0;                  ///< bytes of the parts that are seen
  /// Least margin of a set; -1: it cannot be restored from what is seen.
  int margin = -1;
  double time = 0;  ///< seconds since 1970; 0: not noted; the next two alike
  double write_seconds = 0, protect_seconds = 0;
  bool superseded = false;
  bool is_home = false;  ///< the caller sets it
};

/// What is on the nodes of these names (if empty, on this node), and what was copied to the run's
/// directory `home`. Sorted by name, and for each name the newest first. `tier` is as
/// TierOptions::directory.
std::vector<NodeSave> node_saves(const Address& home, const std::string& tier,
                                 const std::vector<std::string>& nodes);

/// One thing that is wrong with a file. The function reads and checks every byte of the parts that
/// are seen.
struct NodeDamage {
  io::Path path;
  std::string why;
};
struct NodeProof {
  int parts = 0;
  std::int64_t bytes = 0;
  std::vector<NodeDamage> damage;
};
NodeProof verify_node_saves(const Address& home, const std::string& tier,
                            const std::vector<std::string>& nodes);

}  // namespace cairn
