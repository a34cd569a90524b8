#include "model/range_deal.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

namespace cairn::cursor {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// For each rank the numbers of the ranges that belong to it. The longest ranges are dealt first,
// each to the rank that has least.
std::vector<std::vector<std::size_t>> homes_of(std::span<const Range> ranges, int ranks) {
  std::vector<std::size_t> longest;
  for (std::size_t i = 0; i < ranges.size(); ++i) longest.push_back(i);
  std::stable_sort(longest.begin(), longest.end(), [&](std::size_t a, std::size_t b) {
    return ranges[a].count() > ranges[b].count();
  });
  // The positions that a rank has, and its number: of ranks with equally many, the lowest comes
  // first.
  using Load = std::pair<std::int64_t, int>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int rank = 0; rank < ranks; ++rank) least.emplace(0, rank);
  std::vector<std::vector<std::size_t>> homes(at(ranks));
  for (const auto i : longest) {
    auto [load, rank] = least.top();
    least.pop();
    homes[at(rank)].push_back(i);
    least.emplace(load + ranges[i].count(), rank);
  }
  return homes;
}

}  // namespace

std::int64_t count_of(std::span<const Range> ranges) {
  std::int64_t count = 0;
  for (const auto& one : ranges) count += one.count();
  return count;
}

std::int64_t share_of(std::int64_t positions, int rank, int ranks) {
  return positions / ranks + (rank < positions % ranks ? 1 : 0);
}

std::vector<std::vector<Piece>> deal(std::span<const Range> ranges, int ranks) {
  const auto total = count_of(ranges);
  const auto homes = homes_of(ranges, ranks);
  std::vector<std::vector<Piece>> deal(at(ranks));
  std::vector<std::int64_t> lacking(at(ranks));
  std::vector<Range> tails;  // of ranges, left to other ranks
  // First each rank takes from the fronts of its own ranges, as far as its share goes.
  for (int rank = 0; rank < ranks; ++rank) {
    auto& lacks = lacking[at(rank)] = share_of(total, rank, ranks);
    for (const auto i : homes[at(rank)]) {
      const auto [begin, end] = ranges[i];
      const auto cut = begin + std::min(lacks, end - begin);
      if (begin < cut) deal[at(rank)].push_back({{begin, cut}});
      if (cut < end) tails.push_back({cut, end});
      lacks -= cut - begin;
    }
  }
  // Then ranks that lack something take tails, in order. Shares add up to all positions, so there
  // are tails as long as a rank lacks something.
  auto tail = tails.begin();
  for (int rank = 0; rank < ranks; ++rank) {
    auto& pieces = deal[at(rank)];
    const auto first = pieces.size();
    for (auto& lacks = lacking[at(rank)]; lacks > 0;) {
      const auto cut = tail->begin + std::min(lacks, tail->count());
      lacks -= cut - tail->begin;
      pieces.push_back({{tail->begin, cut}, cut == tail->end});
      tail->begin = cut;
      if (tail->count() == 0) ++tail;
    }
    // A rank may begin within a range once, so it takes its only such piece from the front.
    if (pieces.size() == first + 1) pieces.back().backwards = false;
  }
  return deal;
}

std::vector<Range> left_of(std::span<const std::vector<Piece>> deal,
                           std::span<const std::int64_t> taken) {
  std::vector<Range> left;
  for (std::size_t rank = 0; rank < deal.size(); ++rank) {
    auto passed = taken[rank];
    for (const auto& [range, backwards] : deal[rank]) {
      const auto gone = std::min(passed, range.count());
      passed -= gone;
      auto rest = range;
      (backwards ? rest.end : rest.begin) += backwards ? -gone : gone;
      if (rest.count() > 0) left.push_back(rest);
    }
  }
  std::sort(left.begin(), left.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  // Joins ranges in place.
  std::size_t kept = 0;
  for (const auto& one : left) {
    if (kept > 0 && left[kept - 1].end == one.begin) {
      left[kept - 1].end = one.end;
    } else {
      left[kept++] = one;
    }
  }
  left.resize(kept);
  return left;
}

}  // namespace cairn::cursor
