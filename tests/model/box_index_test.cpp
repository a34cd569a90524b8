#include "model/box_index.hpp"

#include <gmock/gmock.h>

#include "cairn/error.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using boxes::Random;
using testing::ElementsAre;
using testing::ThrowsMessage;

/// A box with extents of 0 or more, anywhere near the origin.
Box any_box(Random& random, std::size_t rank, std::int64_t reach) {
  Box box;
  for (std::size_t d = 0; d < rank; ++d) {
    box.start.push_back(boxes::draw(random, -reach, reach));
    box.extent.push_back(boxes::chance(random, 5) ? 0 : boxes::draw(random, 1, reach));
  }
  return box;
}

std::vector<std::size_t> by_looking_at_all(const std::vector<Box>& all, const Box& box) {
  std::vector<std::size_t> hits;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (overlaps(all[i], box)) hits.push_back(i);
  }
  return hits;
}

TEST(BoxIndex, FindsWhatLookingAtAllBoxesFinds) {
  Random random(7);
  for (const std::size_t rank : {0, 1, 2, 3, 4, 7, 40, 254}) {
    for (const int count : {0, 1, 2, 15, 16, 17, 255, 256, 257, 1500}) {
      std::vector<Box> all;
      for (int i = 0; i < count; ++i) all.push_back(any_box(random, rank, rank < 3 ? 200 : 6));
      const BoxIndex index(all);
      for (int q = 0; q < 20; ++q) {
        const auto box = any_box(random, rank, rank < 3 ? 60 : 8);
        EXPECT_EQ(index.query(box), by_looking_at_all(all, box)) << rank << " dims, " << count;
      }
    }
  }
}

TEST(BoxIndex, FindsWhereOnlyOneOfManyDimensionsDiffers) {
  std::vector<Box> all;
  for (std::int64_t i = 0; i < 3000; ++i) {
    Box box = Box::whole(Dims(100, 5));
    box.start[77] = (i * 7919) % 3000;
    box.extent[77] = 1;
    all.push_back(std::move(box));
  }
  const BoxIndex index(all);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_THAT(index.query(all[i]), ElementsAre(i));
}

TEST(BoxIndex, EachPatchOfALargeDecompositionFindsOnlyItself) {
  Random random(3);
  const auto all = boxes::guillotine(random, Box::whole({4000, 3000, 2000}), 50000);
  ASSERT_EQ(all.size(), 50000u);
  const BoxIndex index(all);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_THAT(index.query(all[i]), ElementsAre(i));
}

TEST(BoxIndex, CoordinatesMayBeHuge) {
  const auto top = std::int64_t{1} << 62;
  const std::vector<Box> all{{{0}, {top}}, {{top}, {top - 1}}, {{top + 5}, {1}}};
  const BoxIndex index(all);
  EXPECT_THAT(index.query({{top - 1}, {1}}), ElementsAre(0));
  EXPECT_THAT(index.query({{top + 5}, {top - 6}}), ElementsAre(1, 2));
}

TEST(BoxIndex, NeverFindsEmptyBoxes) {
  const BoxIndex index({{{2, 0}, {0, 9}}, {{0, 0}, {9, 9}}, {{3, 3}, {0, 0}}});
  EXPECT_THAT(index.query({{0, 0}, {9, 9}}), ElementsAre(1));
  EXPECT_TRUE(index.query({{2, 2}, {0, 5}}).empty());
  EXPECT_TRUE(BoxIndex({{{4}, {0}}}).query({{0}, {9}}).empty());
}

TEST(BoxIndex, StopsWhenTheVisitorHasEnough) {
  const BoxIndex index(std::vector<Box>(500, Box{{0}, {1}}));
  int visits = 0;
  index.query(Box{{0}, {1}}, [&](std::size_t) { return ++visits < 3; });
  EXPECT_EQ(visits, 3);
}

TEST(BoxIndex, RefusesMixedRanks) {
  EXPECT_THAT(
      [] {
        BoxIndex({{{0}, {1}}, {{0, 0}, {1, 1}}});
      },
      ThrowsMessage<Error>(test::Says("boxes of 1 and of 2 dimensions")));
  EXPECT_THAT(
      [] {
        BoxIndex({{{0}, {1}}}).query({{0, 0}, {1, 1}});
      },
      ThrowsMessage<Error>(test::Says("boxes of 1 and of 2 dimensions")));
}

TEST(FirstOverlap, IsTheLowestPair) {
  Random random(11);
  int found = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<Box> all;
    const auto rank = static_cast<std::size_t>(boxes::draw(random, 0, 3));
    for (auto n = boxes::draw(random, 0, 40); n > 0; --n) {
      all.push_back(any_box(random, rank, 25));
      for (auto& extent : all.back().extent) extent = std::min<std::int64_t>(extent, 4);
    }
    std::optional<std::pair<std::size_t, std::size_t>> expected;
    for (std::size_t i = 0; i < all.size() && !expected; ++i) {
      for (std::size_t j = i + 1; j < all.size() && !expected; ++j) {
        if (overlaps(all[i], all[j])) expected = {i, j};
      }
    }
    EXPECT_EQ(first_overlap(all), expected);
    found += expected.has_value();
  }
  EXPECT_GT(found, 100);
  EXPECT_LT(found, 390);
}

}  // namespace
}  // namespace cairn
