#pragma once
/// Checkpoints on nodes, as they can be seen by one process.
#include <cstdint>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

struct NodeSave {
  std::string name;  ///< of the checkpoints
  std::int64_t step = 0, sequence = 0;
  int ranks = 0, nodes = 0;                ///< of the job that saved
  int nodes_seen = 0;                      ///< whose parts are all there
  int nodes_brought = 0;                   ///< of these, in the run's directory
  std::vector<std::string> not_seen = {};  ///< names of the others, as far as they are told
  std::int64_t bytes = 0;                  ///< of parts that are seen
  int margin = -1;                         ///< of any set; -1: it cannot be had from what is seen
  double time = 0;                         ///< since 1970; 0: not noted, as the next two
  double write_seconds = 0, protect_seconds = 0;
  bool superseded = false;
  bool is_home = false;  ///< for the caller to say
};

/// By name, and of each the newest first: what is on the nodes of these names (none: this one), and
/// what was brought to the run's directory `home`. `tier`: as TierOptions::directory.
std::vector<NodeSave> node_saves(const Address& home, const std::string& tier,
                                 const std::vector<std::string>& nodes);

/// Reads and checks every byte of the parts that are seen so: what is wrong with which file.
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
