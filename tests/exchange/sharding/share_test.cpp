// Large replicas are cut only if that lets their holders share the work.
#include <gmock/gmock.h>

#include <numeric>

#include "base/text.hpp"
#include "exchange/coverage.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

using boxes::Random;

constexpr std::int64_t mib = 1 << 20;

std::vector<int> first_ranks(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

CoveredTensor replica(const Dims& shape, const std::vector<int>& ranks,
                      DType dtype = DType::uint8) {
  CoveredTensor tensor{"r", dtype, shape, {{Box::whole(shape), {}}}};
  for (const int rank : ranks) tensor.slices[0].holders.push_back({rank, 0});
  return tensor;
}

double fullest_share(const std::vector<CoveredTensor>& tensors, const Writers& writers, int ranks) {
  std::vector<double> load(static_cast<std::size_t>(ranks));
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::size_t s = 0; s < tensors[t].slices.size(); ++s) {
      const auto& slice = tensors[t].slices[s];
      const auto& holder = slice.holders.at(static_cast<std::size_t>(writers[t][s]));
      load[static_cast<std::size_t>(holder.rank)] += bytes_to_write(tensors[t], slice);
    }
  }
  return *std::max_element(load.begin(), load.end());
}

bool share(std::vector<CoveredTensor>& tensors, int ranks, std::int64_t least = mib) {
  return share_replicas(tensors, choose_writers(tensors, ranks), ranks, {}, least);
}

TEST(ShareReplicas, CutsOneLargeTensorForAllOfItsHolders) {
  for (int ranks = 2; ranks < 8; ++ranks) {
    std::vector tensors{replica({800, mib / 80}, first_ranks(ranks))};
    ASSERT_TRUE(share(tensors, ranks));
    ASSERT_EQ(tensors[0].slices.size(), static_cast<std::size_t>(ranks));
    for (const auto& slice : tensors[0].slices) {
      EXPECT_EQ(slice.box.extent[1], mib / 80) << "rows";
      EXPECT_EQ(slice.holders.size(), static_cast<std::size_t>(ranks));
    }
    const auto mean = 800.0 * (mib / 80) / ranks;
    const auto writers = choose_writers(tensors, ranks);
    EXPECT_LE(fullest_share(tensors, writers, ranks), 1.01 * mean);
    EXPECT_FALSE(share_replicas(tensors, writers, ranks)) << "that was enough";
  }
}

TEST(ShareReplicas, CutsAlongADimensionThatIsLongEnough) {
  std::vector tensors{replica({2, mib, 4}, first_ranks(4))};
  ASSERT_TRUE(share(tensors, 4));
  ASSERT_EQ(tensors[0].slices.size(), 4u);
  EXPECT_EQ(tensors[0].slices[1].box, (Box{{0, mib / 4, 0}, {2, mib / 4, 4}}));
  tensors = {replica({2, 2, 3}, first_ranks(4), DType::float64)};
  ASSERT_TRUE(share(tensors, 4, 8)) << "the longest, if none is";
  ASSERT_EQ(tensors[0].slices.size(), 3u);
  EXPECT_EQ(tensors[0].slices[2].box, (Box{{0, 0, 2}, {2, 2, 1}}));
}

TEST(ShareReplicas, LeavesAloneWhatNeedsNoCut) {
  const auto expect_left = [](std::vector<CoveredTensor> tensors, int ranks, const char* why) {
    const auto before = tensors;
    EXPECT_FALSE(share(tensors, ranks)) << why;
    EXPECT_EQ(tensors, before) << why;
  };
  const auto all = first_ranks(4);
  expect_left({replica({8 * mib}, all), replica({8 * mib}, all), replica({8 * mib}, all),
               replica({8 * mib}, all)},
              4, "they balance as they are");
  expect_left({replica({2 * mib - 1}, all)}, 4, "too small for two pieces");
  expect_left({replica({8 * mib}, {2})}, 4, "one rank has it");
  expect_left({replica({}, all, DType::float64)}, 4, "a scalar");
  expect_left({replica({0, 9}, all)}, 4, "no elements");
  expect_left({}, 4, "nothing");
  auto words = replica({}, all, DType::string);
  words.string_bytes = 8 * mib;
  expect_left({words}, 4, "strings are whole");
  auto sliced = replica({8 * mib}, all);
  sliced.storage = Storage::sliced;
  expect_left({sliced}, 4, "as the user wants it");
}

TEST(ShareReplicas, RandomLayoutsOnlyGetBetterAndLoseNothing) {
  int cut = 0;
  for (unsigned seed = 0; seed < test::rounds(500u); ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Random random(seed);
    const int ranks = static_cast<int>(boxes::draw(random, 1, 7));
    std::vector<CoveredTensor> tensors;
    for (auto n = boxes::draw(random, 1, 5); n > 0; --n) {
      const auto shape = boxes::random_shape(random);
      CoveredTensor tensor{cat("t", n), DType::float32, shape, {}};
      for (auto& box : boxes::decompose(random, Box::whole(shape), 5)) {
        if (box.empty()) continue;
        auto holders = first_ranks(ranks);
        std::shuffle(holders.begin(), holders.end(), random);
        holders.resize(static_cast<std::size_t>(boxes::draw(random, 1, ranks)));
        std::sort(holders.begin(), holders.end());
        tensor.slices.push_back({box, {}});
        for (const int rank : holders) tensor.slices.back().holders.push_back({rank, 0});
      }
      std::sort(tensor.slices.begin(), tensor.slices.end(),
                [](const auto& a, const auto& b) { return a.box < b.box; });
      tensors.push_back(std::move(tensor));
    }
    const auto before = tensors;
    const auto writers = choose_writers(tensors, ranks);
    cut += share_replicas(tensors, writers, ranks, {}, 16);
    EXPECT_LE(fullest_share(tensors, choose_writers(tensors, ranks), ranks),
              fullest_share(before, writers, ranks));
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::vector<Box> pieces;
      for (const auto& slice : tensors[t].slices) {
        EXPECT_TRUE(pieces.empty() || pieces.back() < slice.box) << "ascending";
        pieces.push_back(slice.box);
        const auto parent =
            std::find_if(before[t].slices.begin(), before[t].slices.end(),
                         [&](const auto& other) { return other.box.contains(slice.box); });
        ASSERT_NE(parent, before[t].slices.end());
        EXPECT_EQ(slice.holders, parent->holders);
      }
      EXPECT_FALSE(find_overlap(pieces));
      EXPECT_FALSE(find_gap(Box::whole(tensors[t].shape), pieces));
    }
  }
  EXPECT_GT(cut, test::rounds(100));
}

}  // namespace
}  // namespace cairn
