// Tensors with very many slices are cut into regions, which are proved one by one.
#include "exchange/regions.hpp"

#include <gtest/gtest.h>

#include <set>

#include "exchange/coverage.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "layout/bundle/slice_key.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

using boxes::Random;

struct Cut {
  Dims shape;
  std::vector<Box> slices;
  Regions regions;
};

Cut draw_cut(Random& random) {
  Dims shape(static_cast<std::size_t>(boxes::draw(random, 1, 3)));
  for (auto& extent : shape) extent = boxes::draw(random, 1, 30);
  auto slices = boxes::guillotine(random, Box::whole(shape),
                                  static_cast<std::size_t>(boxes::draw(random, 1, 200)));
  std::vector<Box> samples;
  for (std::size_t i = 0; i < slices.size(); i += 3) samples.push_back(slices[i]);
  Regions regions(shape, samples, 5);
  return {std::move(shape), std::move(slices), std::move(regions)};
}

/// How many regions cannot be proved; one or two ranks hold each slice.
int unproved(const Regions& regions, const std::vector<Box>& slices) {
  std::vector<std::vector<GivenSlice>> given(static_cast<std::size_t>(regions.count()));
  for (int rank = 0; rank < 4; ++rank) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const bool mine = static_cast<int>(i % 4) == rank || (i % 8 == 3 && rank == 0);
      if (!mine || slices[i].empty()) continue;
      regions.each_touched(slices[i], [&](int region) {
        given[static_cast<std::size_t>(region)].push_back({slices[i], {rank, static_cast<int>(i)}});
      });
    }
  }
  int count = 0;
  for (int r = 0; r < regions.count(); ++r) {
    count += !check_region(regions.box(r), std::move(given[static_cast<std::size_t>(r)]));
  }
  return count;
}

TEST(Regions, MakeUpTheShapeAndEachSliceBeginsInOne) {
  Random random(1);
  int most = 0;
  for (int round = 0; round < test::rounds(200); ++round) {
    const auto [shape, slices, regions] = draw_cut(random);
    std::vector<Box> all;
    for (int r = 0; r < regions.count(); ++r) all.push_back(regions.box(r));
    EXPECT_FALSE(find_overlap(all));
    EXPECT_FALSE(find_gap(Box::whole(shape), all));
    most = std::max(most, regions.count());
    for (const auto& slice : slices) {
      std::set<int> touched, expected;
      regions.each_touched(slice, [&](int r) { EXPECT_TRUE(touched.insert(r).second); });
      for (int r = 0; r < regions.count(); ++r) {
        if (overlaps(slice, regions.box(r))) expected.insert(r);
      }
      EXPECT_EQ(touched, expected);
      EXPECT_TRUE(regions.box(regions.owner(slice)).contains({slice.start, Dims(shape.size(), 1)}));
    }
    const Regions told(shape, regions.cuts());
    ASSERT_EQ(told.count(), regions.count());
    for (int r = 0; r < regions.count(); ++r) EXPECT_EQ(told.box(r), regions.box(r));
  }
  EXPECT_GT(most, 5);
}

TEST(Regions, AreProvedIfAndOnlyIfTheSlicesMakeUpTheTensor) {
  Random random(2);
  for (int round = 0; round < test::rounds(200); ++round) {
    auto [shape, slices, regions] = draw_cut(random);
    EXPECT_EQ(unproved(regions, slices), 0);
    const auto i = static_cast<std::size_t>(random() % slices.size());
    auto fewer = slices, larger = slices, twice = slices;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_GT(unproved(regions, fewer), 0);
    auto& box = larger[i];
    const auto d = static_cast<std::size_t>(random() % shape.size());
    if (box.end(d) < shape[d]) {
      ++box.extent[d];
      EXPECT_GT(unproved(regions, larger), 0);
    }
    twice.insert(twice.end(), 4, slices[i]);  // to each rank, of which one has it
    EXPECT_GT(unproved(regions, twice), 0);
  }
}

TEST(Regions, OfManySlicesHaveAboutAsManyEach) {
  std::vector<Box> patches;
  for (std::int64_t i = 0; i < 64; ++i) {
    for (std::int64_t j = 0; j < 64; ++j) {
      if (i < 32 && j < 32) {  // refined
        for (std::int64_t k = 0; k < 16; ++k) {
          patches.push_back({{4 * i + k / 4, 4 * j + k % 4}, {1, 1}});
        }
      } else {
        patches.push_back({{4 * i, 4 * j}, {4, 4}});
      }
    }
  }
  const Regions regions({256, 256}, patches, 300);
  std::vector<int> counts(static_cast<std::size_t>(regions.count()));
  for (const auto& patch : patches) {
    regions.each_touched(patch, [&](int r) { ++counts[static_cast<std::size_t>(r)]; });
  }
  EXPECT_GT(regions.count(), static_cast<int>(patches.size()) / 600);
  EXPECT_LE(*std::max_element(counts.begin(), counts.end()), 500);
}

TEST(Regions, AreOneWhereCutsWouldDivideMostSlices) {
  // All of them begin in the first column; a cut between columns would divide each box.
  std::vector<Box> rows(100, Box{{0, 0}, {1, 50}});
  EXPECT_EQ(Regions({1, 50}, rows, 10).count(), 1);
  for (std::int64_t i = 0; i < 100; ++i) rows[static_cast<std::size_t>(i)].start[0] = i;
  const Regions regions({100, 50}, rows, 10);
  EXPECT_GT(regions.count(), 6);
  for (const auto& cut : regions.cuts()) EXPECT_LE(cut.dim, 0);
}

TEST(SliceRuns, FollowTheKeysOfAnIndex) {
  Random random(3);
  for (int round = 0; round < test::rounds(100); ++round) {
    const auto cut = draw_cut(random);
    std::vector<Box> samples;
    for (std::size_t i = 0; i < cut.slices.size(); i += 2) samples.push_back(cut.slices[i]);
    const SliceRuns runs(samples, 4);
    EXPECT_EQ(SliceRuns(runs.firsts()).count(), runs.count());
    if (cut.slices.size() > 30) {
      EXPECT_GT(runs.count(), 2);
    }
    std::vector<std::pair<std::string, int>> keys;
    for (const auto& slice : cut.slices) {
      std::vector<bool> dash;
      for (std::size_t d = 0; d < cut.shape.size(); ++d) {
        dash.push_back(slice.start[d] == 0 && slice.extent[d] == cut.shape[d] &&
                       boxes::chance(random, 50));
      }
      keys.emplace_back(bundle::encode_slice_key("t", slice, dash), runs.of(slice, dash));
    }
    std::sort(keys.begin(), keys.end());
    for (std::size_t i = 1; i < keys.size(); ++i) EXPECT_LE(keys[i - 1].second, keys[i].second);
  }
}

}  // namespace
}  // namespace cairn
