// Which rank takes which positions: each position once, in fair shares, and never more ranges are
// left than there were, or ranks.
#include "model/range_deal.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace cairn::cursor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::int64_t> positions_of(const std::vector<Piece>& pieces) {
  std::vector<std::int64_t> all;
  for (const auto& [range, backwards] : pieces) {
    for (auto i = range.begin; i < range.end; ++i) {
      all.push_back(backwards ? range.begin + range.end - 1 - i : i);
    }
  }
  return all;
}

std::vector<Range> random_ranges(std::mt19937& random, std::size_t count, std::int64_t longest) {
  std::vector<Range> ranges;
  std::int64_t next = 0;
  while (ranges.size() < count) {
    const auto begin = next + 1 + static_cast<std::int64_t>(random() % 5);
    const auto is_short = random() % 2 == 0;
    const auto most = is_short ? 3 : static_cast<unsigned>(longest);
    next = begin + 1 + static_cast<std::int64_t>(random() % most);
    ranges.push_back({begin, next});
  }
  return ranges;
}

TEST(RangeDeal, AWholeEpochGoesInOrder) {
  const std::vector<Range> whole{{0, 10}};
  EXPECT_THAT(deal(whole, 3), ElementsAre(ElementsAre(Piece{{0, 4}}), ElementsAre(Piece{{4, 7}}),
                                          ElementsAre(Piece{{7, 10}})));
  EXPECT_THAT(deal(whole, 1), ElementsAre(ElementsAre(Piece{{0, 10}})));
}

TEST(RangeDeal, NothingAndLessThanThereAreRanks) {
  EXPECT_THAT(deal({}, 2), ElementsAre(IsEmpty(), IsEmpty()));
  const std::vector<Range> two{{5, 7}};
  EXPECT_THAT(deal(two, 3),
              ElementsAre(ElementsAre(Piece{{5, 6}}), ElementsAre(Piece{{6, 7}}), IsEmpty()));
}

// Rank 0 takes the front of the long range, rank 1 its own range and then all of the rest, rank 2
// its own: literal numbers, since checkpoints depend on this.
TEST(RangeDeal, TailsGoToThoseWhoHaveFinishedTheirOwn) {
  const std::vector<Range> three{{0, 20}, {30, 34}, {40, 46}};
  EXPECT_THAT(deal(three, 3), ElementsAre(ElementsAre(Piece{{0, 10}}),
                                          ElementsAre(Piece{{40, 46}}, Piece{{10, 14}}),
                                          ElementsAre(Piece{{30, 34}}, Piece{{14, 20}})));
}

// Of one that takes several, those before the last reach to far ends, and go backwards.
TEST(RangeDeal, FarEndsGoBackwards) {
  const std::vector<Range> five{{0, 20}, {30, 50}, {60, 80}, {90, 91}};
  EXPECT_THAT(deal(five, 4),
              ElementsAre(ElementsAre(Piece{{0, 16}}), ElementsAre(Piece{{30, 45}}),
                          ElementsAre(Piece{{60, 75}}),
                          ElementsAre(Piece{{90, 91}}, Piece{{16, 20}, true}, Piece{{45, 50}, true},
                                      Piece{{75, 80}, true})));
}

TEST(RangeDeal, EachPositionOnceInFairShares) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto ranges = random_ranges(random, random() % 9, 40);
    const int ranks = 1 + static_cast<int>(random() % 9);
    const auto dealt = deal(ranges, ranks);
    std::vector<std::int64_t> all, wanted;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto mine = positions_of(dealt[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(std::ssize(mine), share_of(count_of(ranges), rank, ranks));
      all.insert(all.end(), mine.begin(), mine.end());
    }
    for (const auto& one : ranges) {
      for (auto i = one.begin; i < one.end; ++i) wanted.push_back(i);
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, wanted);
  }
}

// The positions that ranks have not taken are left, whatever their paces, in few ranges.
TEST(RangeDeal, WhatIsLeftIsTheRestInFewRanges) {
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    const auto ranges = random_ranges(random, random() % 9, 60);
    const int ranks = 1 + static_cast<int>(random() % 9);
    const auto dealt = deal(ranges, ranks);
    std::vector<std::int64_t> taken, wanted, found;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto mine = positions_of(dealt[static_cast<std::size_t>(rank)]);
      const auto kind = random() % 4;
      const auto count = kind == 0 ? 0 : kind == 1 ? mine.size() : random() % (mine.size() + 1);
      taken.push_back(static_cast<std::int64_t>(count));
      wanted.insert(wanted.end(), mine.begin() + taken.back(), mine.end());
    }
    const auto left = left_of(dealt, taken);
    for (const auto& one : left) {
      for (auto i = one.begin; i < one.end; ++i) found.push_back(i);
    }
    std::sort(wanted.begin(), wanted.end());
    ASSERT_EQ(found, wanted);
    for (std::size_t i = 1; i < left.size(); ++i) ASSERT_GT(left[i].begin, left[i - 1].end);
    ASSERT_LE(left.size(), std::max(ranges.size(), static_cast<std::size_t>(ranks)))
        << "round " << round;
  }
}

}  // namespace
}  // namespace cairn::cursor
