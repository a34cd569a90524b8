#include "group/tree.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cairn {
namespace {

/// The lowest bit that is set in a place p of a binomial tree; for place 0, a bit not below `size`.
/// Place p receives from p + 1, p + 2, p + 4, … for all bits below this one, and sends to p without
/// this bit.
int lowest_bit(int place, int size) {
  int bit = 1;
  while (bit < size && !(place & bit)) bit <<= 1;
  return bit;
}

/// The ranks in the order of the tree.
std::vector<std::size_t> order_of(std::span<const int> nodes) {
  std::vector<std::size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return nodes[a] < nodes[b]; });
  return order;
}

}  // namespace

TreePosition place_in_tree(int rank, int size, std::span<const int> nodes) {
  const auto node_of = [&](int r) {
    return nodes.empty() ? 0 : nodes[static_cast<std::size_t>(r)];
  };
  struct Node {
    int first, count;
  };
  std::vector<Node> all;
  std::vector<int> neighbours;  // on this rank's node
  int place = 0;
  const int mine = node_of(rank);
  for (int r = 0; r < size; ++r) {
    const int node = node_of(r);
    // Nodes are numbered by their lowest rank, so the next new node has this number.
    if (node == static_cast<int>(all.size())) all.push_back({r, 0});
    ++all[static_cast<std::size_t>(node)].count;
    if (node != mine) continue;
    if (r == rank) place = static_cast<int>(neighbours.size());
    neighbours.push_back(r);
  }
  TreePosition found;
  const auto add = [&](int other, int count) {
    found.branches.push_back({other, count});
    found.count += count;
  };
  // A binomial tree of the ranks of this node. The branch at place p + bit has the places below p +
  // 2·bit, as far as there are ranks.
  const int on_node = static_cast<int>(neighbours.size()), top = lowest_bit(place, on_node);
  for (int bit = 1; bit < top && place + bit < on_node; bit <<= 1) {
    add(neighbours[static_cast<std::size_t>(place + bit)], std::min(bit, on_node - place - bit));
  }
  if (place > 0) {
    found.parent = neighbours[static_cast<std::size_t>(place - top)];
    return found;
  }
  // Only the first rank of a node comes here. It is in a second binomial tree, of nodes, and has
  // the whole nodes below it.
  const int count = static_cast<int>(all.size()), top_node = lowest_bit(mine, count);
  for (int bit = 1; bit < top_node && mine + bit < count; bit <<= 1) {
    int ranks = 0;
    for (int node = mine + bit; node < std::min(mine + 2 * bit, count); ++node) {
      ranks += all[static_cast<std::size_t>(node)].count;
    }
    add(all[static_cast<std::size_t>(mine + bit)].first, ranks);
  }
  if (mine > 0) found.parent = all[static_cast<std::size_t>(mine - top_node)].first;
  return found;
}

bool is_in_rank_order(std::span<const int> nodes) {
  return std::is_sorted(nodes.begin(), nodes.end());
}

std::vector<std::string> to_rank_order(std::vector<std::string> in_tree,
                                       std::span<const int> nodes) {
  if (is_in_rank_order(nodes)) return in_tree;
  const auto order = order_of(nodes);
  std::vector<std::string> by_rank(in_tree.size());
  for (std::size_t i = 0; i < order.size(); ++i) by_rank[order[i]] = std::move(in_tree[i]);
  return by_rank;
}

std::vector<std::string> to_tree_order(std::vector<std::string> by_rank,
                                       std::span<const int> nodes) {
  if (is_in_rank_order(nodes)) return by_rank;
  const auto order = order_of(nodes);
  std::vector<std::string> in_tree(by_rank.size());
  for (std::size_t i = 0; i < order.size(); ++i) in_tree[i] = std::move(by_rank[order[i]]);
  return in_tree;
}

}  // namespace cairn
