#include "exchange/io_ranks.hpp"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "cairn/error.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(IoRanks, EveryoneIsTheDefault) {
  EXPECT_THAT(choose_io_ranks({0, 0, 1}, {}), IsEmpty());
  EXPECT_THAT(choose_io_ranks({0, 0, 1}, IoRanks::count(3)), IsEmpty());
  EXPECT_THAT(choose_io_ranks({0, 0, 1}, IoRanks::count(9)), IsEmpty());
  EXPECT_THAT(choose_io_ranks({0, 1, 2}, IoRanks::one_a_node()), IsEmpty());
}

TEST(IoRanks, OneANodeServesItsNode) {
  EXPECT_THAT(choose_io_ranks({0, 0, 0, 1, 1}, IoRanks::one_a_node()), ElementsAre(0, 0, 0, 3, 3));
  // Consecutive ranks are on different nodes.
  EXPECT_THAT(choose_io_ranks({0, 1, 0, 1, 0}, IoRanks::one_a_node()), ElementsAre(0, 1, 0, 1, 0));
}

TEST(IoRanks, ACountIsSpreadOverNodesAndWithinThem) {
  EXPECT_THAT(choose_io_ranks({0, 0, 0, 0, 0}, IoRanks::count(2)), ElementsAre(0, 0, 2, 2, 2));
  EXPECT_THAT(choose_io_ranks({0, 0, 0, 0, 1, 1}, IoRanks::count(3)),
              ElementsAre(0, 0, 2, 2, 4, 4));
  EXPECT_THAT(choose_io_ranks({0, 0, 0, 0}, IoRanks::count(1)), ElementsAre(0, 0, 0, 0));
}

TEST(IoRanks, FewerThanNodesAreWhereMostRanksAre) {
  // Node 0 is chosen for rank 0, node 2 for its size; node 1 is served by the rank with the fewest
  // others.
  EXPECT_THAT(choose_io_ranks({0, 1, 1, 2, 2, 2}, IoRanks::count(2)),
              ElementsAre(0, 0, 0, 3, 3, 3));
}

TEST(IoRanks, ACountBelowOneIsRefused) {
  EXPECT_THAT(
      [] {
        choose_io_ranks({0, 0}, IoRanks::count(0));
      },
      ThrowsMessage<Error>(test::Says("IoRanks::ranks is 0")));
}

TEST(IoRanks, AutomaticOnesAreNoMoreThanTheFilesThatMayBe) {
  // 8 nodes of 16 ranks.
  std::vector<int> nodes;
  for (int rank = 0; rank < 128; ++rank) nodes.push_back(rank / 16);
  const auto writers = [&](int most_files) {
    const auto served_by = choose_io_ranks(nodes, IoRanks::automatic(most_files));
    return served_by.empty() ? nodes.size() : std::set(served_by.begin(), served_by.end()).size();
  };
  EXPECT_EQ(writers(128), 128u);
  EXPECT_EQ(writers(127), 32u) << "four a node";
  EXPECT_EQ(writers(20), 20u);
  EXPECT_EQ(writers(3), 3u) << "fewer than nodes";
}

TEST(IoRanks, RandomNodesAreServedAtHomeAndEvenly) {
  for (unsigned seed = 0; seed < test::rounds(500u); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int> nodes(1 + random() % 40);
    const auto many = 1 + random() % 8;
    for (auto& node : nodes) node = static_cast<int>(random() % many);
    const auto wish = random() % 4 == 0 ? IoRanks::one_a_node()
                                        : IoRanks::count(static_cast<int>(1 + random() % 12));
    const auto served_by = choose_io_ranks(nodes, wish);
    const std::set<int> all_nodes(nodes.begin(), nodes.end());
    const auto asked = wish.choice == IoRanks::Choice::one_a_node
                           ? all_nodes.size()
                           : static_cast<std::size_t>(wish.ranks);
    if (served_by.empty()) {
      EXPECT_GE(asked, nodes.size());
      continue;
    }
    ASSERT_EQ(served_by.size(), nodes.size());
    EXPECT_EQ(served_by[0], 0);
    const std::set<int> io_ranks(served_by.begin(), served_by.end());
    EXPECT_EQ(io_ranks.size(), asked);
    std::set<int> io_nodes;
    for (const auto rank : io_ranks) {
      EXPECT_EQ(served_by[static_cast<std::size_t>(rank)], rank);
      io_nodes.insert(nodes[static_cast<std::size_t>(rank)]);
    }
    EXPECT_EQ(io_nodes.size(), std::min(asked, all_nodes.size()));
    std::map<int, std::map<int, int>> at_home;  // by node, by io rank
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      const auto its_node = nodes[static_cast<std::size_t>(served_by[rank])];
      if (!io_nodes.count(nodes[rank])) continue;
      EXPECT_EQ(its_node, nodes[rank]) << "rank " << rank;
      ++at_home[its_node][served_by[rank]];
    }
    for (const auto& [node, of] : at_home) {
      const auto [least, most] = std::minmax_element(
          of.begin(), of.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
      EXPECT_LE(most->second - least->second, 1) << "node " << node;
    }
  }
}

TEST(DealFiles, OneANodeIsTheDefault) {
  EXPECT_THAT(deal_files({0, 0, 1, 1, 2}, 0), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(deal_files({0, 1, 0, 1, 0}, 0), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(deal_files({0}, 0), ElementsAre(0));
}

TEST(DealFiles, NodesShareFilesOrFilesShareNodes) {
  EXPECT_THAT(deal_files({0, 0, 1, 1, 2}, 1), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(deal_files({0, 0, 1, 1, 2, 2, 3, 3}, 2), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(deal_files({0, 0, 0, 0, 1, 1}, 3), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(deal_files({0, 0, 0, 0, 0, 0, 0}, 2), ElementsAre(0, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(deal_files({0, 0, 1}, 9), ElementsAre(0, 1, 2));
}

TEST(DealFiles, LessThanNoneIsRefused) {
  EXPECT_THAT(
      [] {
        deal_files({0, 0}, -1);
      },
      ThrowsMessage<Error>(test::Says("MpiIoOptions::files is -1")));
}

TEST(DealFiles, RandomNodesStayTogether) {
  for (unsigned seed = 0; seed < test::rounds(500u); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int> nodes(1 + random() % 40);
    const auto many = 1 + random() % 8;
    for (auto& node : nodes) node = static_cast<int>(random() % many);
    const auto wish = static_cast<std::size_t>(random() % (nodes.size() + 3));
    const auto file_of = deal_files(nodes, static_cast<int>(wish));
    const auto node_count = std::set<int>(nodes.begin(), nodes.end()).size();
    const auto count = wish == 0 ? node_count : std::min(wish, nodes.size());
    std::map<int, std::set<int>> nodes_of_file, files_of_node;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      nodes_of_file[file_of[rank]].insert(nodes[rank]);
      files_of_node[nodes[rank]].insert(file_of[rank]);
    }
    ASSERT_EQ(nodes_of_file.size(), count);
    ASSERT_EQ(nodes_of_file.rbegin()->first + 1, static_cast<int>(count));
    for (const auto& [file, its_nodes] : nodes_of_file) {
      ASSERT_TRUE(count < node_count || its_nodes.size() == 1) << file;
    }
    for (const auto& [node, its_files] : files_of_node) {
      ASSERT_TRUE(count > node_count || its_files.size() == 1) << node;
    }
    // Within a node, files are in the order of ranks.
    std::map<int, int> last;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      const auto [at, is_new] = last.emplace(nodes[rank], file_of[rank]);
      ASSERT_LE(at->second, file_of[rank]);
      at->second = file_of[rank];
    }
  }
}

}  // namespace
}  // namespace cairn::plan
