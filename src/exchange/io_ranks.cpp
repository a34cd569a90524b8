#include "exchange/io_ranks.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::plan {
namespace {

// The ranks of one node, and how many io ranks, or files, it gets.
struct Node {
  std::vector<int> ranks;  // ascending
  std::size_t io_ranks = 0;
};

// The nodes, ascending by lowest rank, so that rank 0 is on the first.
std::vector<Node> nodes_of(const std::vector<int>& node_of_rank) {
  std::vector<Node> nodes;
  std::map<int, std::size_t> at;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto [found, is_new] = at.emplace(node_of_rank[rank], nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[found->second].ranks.push_back(static_cast<int>(rank));
  }
  return nodes;
}

// Says how many io ranks, or files, each node gets, of `count` in all.
void deal(std::vector<Node>& nodes, std::size_t count) {
  if (count < nodes.size()) {
    // Besides the first node, those with most ranks get an io rank: their ranks are served on their
    // own node.
    std::vector<Node*> by_size;
    for (auto& node : nodes) by_size.push_back(&node);
    std::stable_sort(by_size.begin() + 1, by_size.end(), [](const Node* a, const Node* b) {
      return a->ranks.size() > b->ranks.size();
    });
    for (std::size_t i = 0; i < count; ++i) by_size[i]->io_ranks = 1;
    return;
  }
  for (auto& node : nodes) node.io_ranks = 1;
  // One at a time to the node with the most ranks for each io rank that it has.
  for (auto left = count - nodes.size(); left > 0; --left) {
    const auto busiest =
        std::max_element(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
          return a.ranks.size() * b.io_ranks < b.ranks.size() * a.io_ranks;
        });
    ++busiest->io_ranks;
  }
}

}  // namespace

std::vector<int> choose_io_ranks(const std::vector<int>& node_of_rank, const IoRanks& wish) {
  const auto ranks = node_of_rank.size();
  if (wish.choice == IoRanks::Choice::everyone) return {};
  auto nodes = nodes_of(node_of_rank);
  auto count = nodes.size();
  if (wish.choice != IoRanks::Choice::one_a_node) {
    if (wish.ranks < 1) {
      throw Error(Code::invalid_argument, cat("IoRanks::ranks is ", wish.ranks),
                  "somebody must touch files", "Give 1 or more.");
    }
    count = static_cast<std::size_t>(wish.ranks);
  }
  // A few streams use up a node's share of a parallel file system, however many ranks it has.
  constexpr std::size_t writers_a_node = 4;
  if (wish.choice == IoRanks::Choice::automatic && count < ranks) {
    count = std::min(count, writers_a_node * nodes.size());
  }
  if (count >= ranks) return {};
  deal(nodes, count);

  std::vector<int> served_by(ranks, -1);
  std::map<int, int> serves;  // the number of ranks that each io rank serves
  for (const auto& [members, io_ranks] : nodes) {
    // The ranks of a node in runs of nearly equal length; the first rank of each run serves it.
    for (std::size_t i = 0; i < io_ranks; ++i) {
      const auto first = members.size() * i / io_ranks;
      const auto end = members.size() * (i + 1) / io_ranks;
      for (auto m = first; m < end; ++m) {
        served_by[static_cast<std::size_t>(members[m])] = members[first];
        ++serves[members[first]];
      }
    }
  }
  // Ranks of nodes without an io rank.
  for (auto& io_rank : served_by) {
    if (io_rank >= 0) continue;
    const auto least =
        std::min_element(serves.begin(), serves.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    io_rank = least->first;
    ++least->second;
  }
  return served_by;
}

std::vector<int> deal_files(const std::vector<int>& node_of_rank, int files) {
  if (files < 0) {
    throw Error(Code::invalid_argument, cat("MpiIoOptions::files is ", files),
                "ranks share at least one file", "Give 1 or more, or 0 for one a node.");
  }
  auto nodes = nodes_of(node_of_rank);
  const auto count =
      files == 0 ? nodes.size() : std::min(static_cast<std::size_t>(files), node_of_rank.size());
  const bool nodes_share = count <= nodes.size();
  if (!nodes_share) deal(nodes, count);
  std::vector<int> file_of(node_of_rank.size());
  std::size_t next = 0;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto& [members, own] = nodes[n];
    for (std::size_t m = 0; m < members.size(); ++m) {
      // The first m with m * own / size == i begins file i, so that sizes differ by one at most.
      const auto file = nodes_share ? n * count / nodes.size() : next + m * own / members.size();
      file_of[static_cast<std::size_t>(members[m])] = static_cast<int>(file);
    }
    next += own;
  }
  return file_of;
}

}  // namespace cairn::plan
