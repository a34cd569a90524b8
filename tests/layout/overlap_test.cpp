#include "layout/bundle/overlap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/rounds.hpp"

namespace cairn::bundle {
namespace {

bool any_pair_overlaps(const std::vector<Box>& boxes) {
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (!boxes[i].empty() && !boxes[k].empty() && overlaps(boxes[i], boxes[k])) return true;
    }
  }
  return false;
}

TEST(Overlap, agrees_with_all_pairs_on_random_boxes) {
  std::mt19937_64 random(11);
  int with = 0, without = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto rank = random() % 4;
    std::vector<Box> boxes(random() % 60);
    const auto side = static_cast<std::int64_t>(4 + random() % 60);
    for (auto& box : boxes) {
      for (std::size_t d = 0; d < rank; ++d) {
        box.start.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(side)));
        box.extent.push_back(static_cast<std::int64_t>(random() % 4));
      }
    }
    const bool expected = any_pair_overlaps(boxes);
    const auto found = find_overlap(boxes);
    ASSERT_EQ(found.has_value(), expected) << round;
    (expected ? with : without)++;
    if (found) {
      EXPECT_NE(found->first, found->second);
      EXPECT_TRUE(overlaps(boxes[found->first], boxes[found->second]));
    }
  }
  EXPECT_GT(with, 100);
  EXPECT_GT(without, 100);
}

// Disjoint boxes that fill a cube, alone and with one more.
void expect_finds_intruder(std::vector<Box> boxes, const Box& intruder) {
  std::shuffle(boxes.begin(), boxes.end(), std::mt19937_64(5));
  EXPECT_FALSE(find_overlap(boxes));
  boxes.push_back(intruder);
  const auto found = find_overlap(boxes);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::max(found->first, found->second), boxes.size() - 1);
}

TEST(Overlap, large_sets_of_every_kind) {
  // Rows and grids of this size would take long if pairs were compared.
  std::vector<Box> rows, columns, grid, sticks;
  for (std::int64_t i = 0; i < test::rounds(50000); ++i) {
    rows.push_back({{i, 0}, {1, 9}});
    columns.push_back({{0, i}, {9, 1}});
  }
  constexpr std::int64_t side = test::sanitized ? 70 : 200;
  for (std::int64_t i = 0; i < side; ++i) {
    for (std::int64_t k = 0; k < side; ++k) grid.push_back({{2 * i, 2 * k}, {2, 2}});
  }
  // Sticks along three axes that pass each other: every plane cuts a third of them.
  for (std::int64_t i = 0; i < 30; ++i) {
    for (std::int64_t k = 0; k < 30; ++k) {
      sticks.push_back({{0, 2 * i, 2 * k}, {60, 1, 1}});
      sticks.push_back({{2 * i, 0, 2 * k + 1}, {1, 60, 1}});
      sticks.push_back({{2 * i + 1, 2 * k + 1, 0}, {1, 1, 60}});
    }
  }
  expect_finds_intruder(rows, {{777, 4}, {1, 1}});
  expect_finds_intruder(columns, {{4, 777}, {1, 1}});
  expect_finds_intruder(grid, {{133, 132}, {1, 1}});
  expect_finds_intruder(sticks, {{5, 8, 8}, {1, 1, 1}});
  // Boxes that differ in one dimension only, and equal ones.
  std::vector<Box> same(test::rounds(100000), Box{{3, 3}, {2, 2}});
  EXPECT_TRUE(find_overlap(same));
}

TEST(Overlap, scalars_and_empty_boxes) {
  EXPECT_FALSE(find_overlap({}));
  EXPECT_FALSE(find_overlap({Box{}}));
  EXPECT_TRUE(find_overlap({Box{}, Box{}}));
  EXPECT_FALSE(find_overlap({{{0}, {0}}, {{0}, {0}}, {{0}, {4}}}));
}

}  // namespace
}  // namespace cairn::bundle
