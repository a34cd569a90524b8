#pragma once
/// A tree of ranks with rank 0 as root. With it a rank exchanges about log n messages, where n is
/// the number of ranks.
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// The position of a rank in a tree that goes through the ranks of each node first and then through
/// the first ranks of nodes: so each node except the first sends one message to another node. A
/// rank and all ranks below it are neighbours in the order of the tree: by node, on a node by rank.
struct TreePosition {
  struct Branch {
    int rank;
    int count;  ///< number of ranks
  };
  int parent = -1;
  /// In the order of the tree. The rank itself comes before all of them.
  std::vector<Branch> branches;
  int count = 1;  ///< number of ranks, with this one
};

/// `nodes` is that of Group::nodes(). If it is empty, all ranks count as one node.
TreePosition place_in_tree(int rank, int size, std::span<const int> nodes);

/// Whether the order of the tree is the order of ranks.
bool is_in_rank_order(std::span<const int> nodes);

/// Reorders a list with one string per rank.
std::vector<std::string> to_rank_order(std::vector<std::string> in_tree, std::span<const int>);
std::vector<std::string> to_tree_order(std::vector<std::string> by_rank, std::span<const int>);

}  // namespace cairn
