// Trees of ranks that follow the nodes.
#include "group/tree.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace cairn {
namespace {

std::vector<int> in_turn(int ranks, int nodes) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank % nodes);
  return all;
}

std::vector<int> in_blocks(int ranks, int each) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank / each);
  return all;
}

std::vector<int> by_chance(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> all;
  int nodes = 0;
  for (unsigned rank = 0, ranks = 1 + random() % 60; rank < ranks; ++rank) {
    all.push_back(static_cast<int>(random() % static_cast<unsigned>(nodes + 1)));
    nodes = std::max(nodes, all.back() + 1);
  }
  return all;
}

/// The ranks of a branch in the order in which they are met; empty if a rank and the one above it
/// do not agree.
std::vector<int> walk(int rank, const std::vector<int>& nodes) {
  const int size = static_cast<int>(nodes.size());
  const auto place = place_in_tree(rank, size, nodes);
  std::vector<int> met{rank};
  for (const auto& branch : place.branches) {
    EXPECT_EQ(place_in_tree(branch.rank, size, nodes).parent, rank);
    const auto below = walk(branch.rank, nodes);
    EXPECT_EQ(static_cast<int>(below.size()), branch.count);
    met.insert(met.end(), below.begin(), below.end());
  }
  EXPECT_EQ(static_cast<int>(met.size()), place.count);
  return met;
}

/// How many messages go between nodes on the way to rank 0.
int leaving(const std::vector<int>& nodes) {
  int count = 0;
  for (int rank = 1; rank < static_cast<int>(nodes.size()); ++rank) {
    const int to = place_in_tree(rank, static_cast<int>(nodes.size()), nodes).parent;
    count += nodes[static_cast<std::size_t>(rank)] != nodes[static_cast<std::size_t>(to)];
  }
  return count;
}

TEST(Tree, GoesThroughAllRanksNodeByNode) {
  std::vector<std::vector<int>> layouts{{0},
                                        in_turn(37, 5),
                                        in_blocks(37, 6),
                                        in_blocks(9, 1),
                                        in_blocks(9, 9),
                                        {0, 1, 1, 2, 0, 2, 1}};
  for (unsigned seed = 0; seed < 100; ++seed) layouts.push_back(by_chance(seed));
  for (const auto& nodes : layouts) {
    SCOPED_TRACE(::testing::PrintToString(nodes));
    std::vector<int> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return nodes[static_cast<std::size_t>(a)] < nodes[static_cast<std::size_t>(b)];
    });
    EXPECT_EQ(place_in_tree(0, static_cast<int>(nodes.size()), nodes).parent, -1);
    EXPECT_EQ(walk(0, nodes), order);
    EXPECT_EQ(leaving(nodes), *std::max_element(nodes.begin(), nodes.end()));
    // And back to the order of ranks.
    std::vector<std::string> by_rank, in_tree;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) by_rank.push_back(std::to_string(rank));
    for (const int rank : order) in_tree.push_back(std::to_string(rank));
    EXPECT_EQ(to_rank_order(in_tree, nodes), by_rank);
    EXPECT_EQ(to_tree_order(by_rank, nodes), in_tree);
  }
}

TEST(Tree, WithoutNodesIsBinomial) {
  const auto place = place_in_tree(8, 13, {});
  EXPECT_EQ(place.parent, 0);
  EXPECT_EQ(place.count, 5);
  std::vector<int> below;
  for (const auto& branch : place.branches) below.push_back(branch.rank);
  EXPECT_THAT(below, ::testing::ElementsAre(9, 10, 12));
}

TEST(Tree, OfManyRanksIsLowAndNarrow) {
  for (const auto& nodes : {in_blocks(6400, 100), in_turn(6400, 64)}) {
    EXPECT_EQ(leaving(nodes), 63);
    int deepest = 0;
    for (int rank = 0; rank < 6400; rank += 7) {
      int steps = 0;
      for (int at = rank; at > 0; ++steps) at = place_in_tree(at, 6400, nodes).parent;
      deepest = std::max(deepest, steps);
    }
    EXPECT_LE(deepest, 6 + 7);
    EXPECT_EQ(place_in_tree(0, 6400, nodes).branches.size(), 6u + 7u);
  }
}

}  // namespace
}  // namespace cairn
