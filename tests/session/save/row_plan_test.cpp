// Rows travel to blocks in the order of their ids: more rows than one message takes.
#include "exchange/row_plan.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "exchange/row_exchange.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

TEST(SortIds, IsTheOrderOfAStableSort) {
  std::mt19937_64 random(5);
  for (const std::size_t count : {0u, 1u, 2u, 100u, 5000u, 70000u}) {
    for (const int bits : {1, 10, 11, 12, 23, 40, 63}) {
      std::vector<std::int64_t> ids(count);
      for (auto& id : ids) id = static_cast<std::int64_t>(random() >> (64 - bits));
      std::vector<plan::Place> places(count);
      std::iota(places.begin(), places.end(), plan::Place{0});
      std::stable_sort(places.begin(), places.end(),
                       [&](auto a, auto b) { return ids[a] < ids[b]; });
      const auto sorted = plan::sort_ids(ids);
      ASSERT_EQ(sorted.places, places) << count << " ids of " << bits << " bits";
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sorted.ids[i], ids[places[i]]);
    }
  }
}

TEST(PrintOfIds, TellsListsApart) {
  std::vector<std::int64_t> ids{4, 9, 2, 2};
  const auto print = plan::print_of(ids);
  EXPECT_EQ(plan::print_of(ids), print);
  std::swap(ids[0], ids[1]);
  EXPECT_NE(plan::print_of(ids), print);
  std::swap(ids[0], ids[1]);
  ids.push_back(0);
  EXPECT_NE(plan::print_of(ids), print);
  ids.pop_back();
  ids[3] = 3;
  EXPECT_NE(plan::print_of(ids), print);
  EXPECT_NE(plan::print_of({}), plan::print_of(std::vector<std::int64_t>{0}));
}

TEST(EvenBlocks, CoverAllRowsInOrder) {
  for (const std::int64_t rows : {0, 1, 5, 7, 1000, 4 * 16 * 4096, 1000001}) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      auto begins = even_blocks(rows, ranks);
      ASSERT_EQ(begins.size(), static_cast<std::size_t>(ranks));
      EXPECT_EQ(begins.front(), 0);
      begins.push_back(rows);
      for (int r = 0; r < ranks; ++r) {
        const auto at = static_cast<std::size_t>(r);
        const auto count = begins[at + 1] - begins[at];
        EXPECT_GE(count, 0);
        EXPECT_LE(std::abs(count - rows / ranks), rows / 16 / ranks + 1) << rows << " " << ranks;
      }
    }
  }
}

// Several messages with rows go between each two ranks, and back.
TEST(RowPlan, MoreRowsThanAMessageTakes) {
  constexpr std::int64_t rows = 1'300'000, wide = 4;
  run_threads(3, [&](std::shared_ptr<Group> group) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto id = i * 314'159 % rows;  // coprime to it
      if (id % 7 % 3 == group->rank()) ids.push_back(id);
    }
    const auto plan = plan_all_rows(*group, {"x", ids}, 0, -1);
    EXPECT_TRUE(plan.is_proved);
    EXPECT_EQ(plan.rows, rows);
    const auto held = ids.size(), count = static_cast<std::size_t>(plan.count);
    std::vector<std::int64_t> mine(held * wide), block(count * wide), narrow(count);
    for (std::size_t i = 0; i < held; ++i) {
      for (std::size_t k = 0; k < wide; ++k) {
        mine[i * wide + k] = ids[i] + static_cast<std::int64_t>(k * rows);
      }
    }
    const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
    const RowMemory both[] = {{8 * wide, bytes(mine), bytes(block)},
                              {8, bytes(ids), bytes(narrow)}};
    rows_to_blocks(*group, plan, both);
    bool right = true;
    for (std::size_t i = 0; i < count; ++i) {
      const auto id = plan.begin + static_cast<std::int64_t>(i);
      right = right && narrow[i] == id;
      for (std::size_t k = 0; k < wide; ++k) {
        right = right && block[i * wide + k] == id + static_cast<std::int64_t>(k * rows);
      }
    }
    EXPECT_TRUE(right);
    const auto sent = mine;
    std::fill(mine.begin(), mine.end(), -1);
    blocks_to_rows(*group, plan, both);
    EXPECT_TRUE(mine == sent);
  });
}

}  // namespace
}  // namespace cairn
