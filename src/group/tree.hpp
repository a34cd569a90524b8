#pragma once
/// A tree of ranks whose root is rank 0.
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// Where a rank stands in a tree that goes through the ranks of each node first and then through
/// the first ranks of nodes: so one message goes from each node but the first to another one. A
/// rank and all below it are neighbours in the order of the tree: by node, in a node by rank.
struct TreePosition {
  struct Branch {
    int rank;
    int count;  ///< of ranks
  };
  int parent = -1;
  /// In the order of the tree, as the rank itself comes before all of them.
  std::vector<Branch> branches;
  int count = 1;  ///< of ranks, with this one
};

/// `nodes` as of Group::nodes(). Empty: all ranks are taken for one node.
TreePosition place_in_tree(int rank, int size, std::span<const int> nodes);

/// Are ranks in their own order also in that of the tree?
bool is_in_rank_order(std::span<const int> nodes);

/// One string a rank, from one order to the other.
std::vector<std::string> to_rank_order(std::vector<std::string> in_tree, std::span<const int>);
std::vector<std::string> to_tree_order(std::vector<std::string> by_rank, std::span<const int>);

}  // namespace cairn
