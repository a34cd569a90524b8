// Which elements share memory, compared with a look at every byte.
#include "model/shared_memory.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "exchange/sharding/decompositions.hpp"

namespace cairn {
namespace {

using boxes::draw;
using Pairs = std::set<std::pair<std::size_t, std::size_t>>;

const std::byte* const base = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40);

Laid laid(std::int64_t first, Dims extent, Dims strides, std::int64_t item) {
  return {{base + first, std::move(strides), item}, std::move(extent)};
}

std::map<std::int64_t, int> bytes_of(const Laid& one) {
  std::map<std::int64_t, int> all;
  boxes::for_each_element(Box{Dims(one.extent.size()), one.extent}, [&](const Dims& at) {
    auto byte = one.where.first - base;
    for (std::size_t d = 0; d < at.size(); ++d) byte += at[d] * one.where.strides[d];
    for (std::int64_t i = 0; i < one.where.element_bytes; ++i) ++all[byte + i];
  });
  return all;
}

Pairs pairs_of(const std::vector<Laid>& all) {
  Pairs pairs;
  each_sharing(all, [&](std::size_t a, std::size_t b) {
    EXPECT_TRUE(pairs.emplace(std::min(a, b), std::max(a, b)).second) << a << " and " << b;
  });
  return pairs;
}

TEST(SharedMemory, EveryByteIsAccountedFor) {
  boxes::Random random(5);
  int folded = 0, shared = 0, apart = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Laid> all;
    for (auto count = draw(random, 2, 4); count > 0; --count) {
      Dims extent, strides;
      for (auto d = draw(random, 0, 3); d > 0; --d) {
        extent.push_back(draw(random, 0, 4));
        strides.push_back(draw(random, -12, 12) * 2);
      }
      all.push_back(laid(draw(random, 0, 100), extent, strides, draw(random, 1, 4)));
    }
    Pairs expected;
    for (std::size_t a = 0; a < all.size(); ++a) {
      const auto bytes = bytes_of(all[a]);
      const bool folds_here =
          std::any_of(bytes.begin(), bytes.end(), [](const auto& one) { return one.second > 1; });
      EXPECT_EQ(folds(all[a]), folds_here) << "in round " << round;
      folded += folds_here;
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        bool any = false;
        for (const auto& [byte, times] : bytes_of(all[b])) any = any || bytes.count(byte) != 0;
        if (any) expected.emplace(a, b);
        ++(any ? shared : apart);
      }
    }
    EXPECT_EQ(pairs_of(all), expected) << "in round " << round;
  }
  EXPECT_GT(folded, 500);
  EXPECT_GT(shared, 500);
  EXPECT_GT(apart, 500);
}

// Columns, tiles and planes of one array, and fields of structs: so many that another algorithm is
// used.
TEST(SharedMemory, ManyPartsOfOneArray) {
  boxes::Random random(6);
  for (int round = 0; round < 20; ++round) {
    const Dims strides{draw(random, 0, 1) ? 400 : 404, 20, 4};
    std::vector<Laid> all;
    for (int i = 0; i < 60; ++i) {
      const Box box = boxes::random_box(random, Box::whole({3, 20, 5}));
      auto first = box.start[0] * strides[0] + box.start[1] * 20 + box.start[2] * 4;
      if (round % 4 == 3) first += draw(random, 0, 2);
      all.push_back(laid(first, box.extent, strides, round % 2 ? 4 : 2));
    }
    Pairs expected;
    std::vector<std::vector<std::size_t>> holders(3 * 404);
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const auto& [byte, times] : bytes_of(all[i])) {
        for (const auto other : holders.at(byte)) expected.emplace(other, i);
        holders[byte].push_back(i);
      }
    }
    EXPECT_EQ(pairs_of(all), expected) << "in round " << round;
  }
  std::vector<Laid> columns, planes;
  for (int i = 0; i < 20'000; ++i) {
    columns.push_back(laid(i * 8, {100, 1}, {160'000, 8}, 8));
    planes.push_back(laid(i * 8, {10, 10}, {160'000, 1'600'000}, 8));
  }
  EXPECT_EQ(pairs_of(columns), Pairs());
  EXPECT_EQ(pairs_of(planes), Pairs());
}

TEST(SharedMemory, WhatTakesTooLongCountsAsShared) {
  const Dims extent(8, 1000), strides{1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049};
  EXPECT_TRUE(folds(laid(0, extent, strides, 1)));
}

}  // namespace
}  // namespace cairn
