#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <numeric>

#include "cairn/error.hpp"
#include "exchange/coverage.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using boxes::Random;
using testing::ElementsAre;
using testing::ThrowsMessage;

HeldSlice held(std::int64_t start, std::int64_t extent, const std::vector<int>& ranks) {
  HeldSlice slice{{{start}, {extent}}, {}};
  for (const auto rank : ranks) slice.holders.push_back({rank, 0});
  return slice;
}

TEST(ChooseWriters, UnreplicatedSlicesCountFirst) {
  // Rank 0 has many bytes of its own, so rank 2 writes the replica.
  const std::vector<CoveredTensor> tensors{
      {"r", DType::float32, {10}, {held(0, 10, {0, 2})}},
      {"u", DType::float64, {101}, {held(0, 100, {0}), held(100, 1, {2})}}};
  EXPECT_THAT(choose_writers(tensors, 3), ElementsAre(ElementsAre(1), ElementsAre(0, 0)));
}

TEST(ChooseWriters, LargestGroupsFirst) {
  const std::vector<CoveredTensor> tensors{
      {"r",
       DType::int8,
       {16},
       {held(0, 3, {0, 1}), held(3, 3, {0, 1}), held(6, 4, {0, 1}), held(10, 6, {0, 1})}}};
  // 6 → 0, 4 → 1, 3 → 1, 3 → 0.
  EXPECT_THAT(choose_writers(tensors, 2), ElementsAre(ElementsAre(1, 0, 1, 0)));
}

TEST(ChooseWriters, StringsCountAsLongAsTheyAre) {
  const auto words = [](const char* key, std::int64_t bytes) {
    CoveredTensor tensor{key, DType::string, {}, {{Box{}, {{0, 0}, {1, 0}}}}};
    tensor.string_bytes = bytes;
    return tensor;
  };
  EXPECT_THAT(choose_writers({words("a", 10), words("b", 10), words("c", 100)}, 2),
              ElementsAre(ElementsAre(1), ElementsAre(1), ElementsAre(0)));
}

TEST(ChooseWriters, BalancesBytesOfRandomReplicas) {
  Random random(21);
  for (int round = 0; round < 200; ++round) {
    const int ranks = static_cast<int>(boxes::draw(random, 1, 8));
    std::vector<CoveredTensor> tensors(3);
    std::int64_t largest = 0, total = 0;
    for (auto& tensor : tensors) {
      tensor.dtype = DType::int16;
      for (auto n = boxes::draw(random, 1, 30); n > 0; --n) {
        std::vector<int> all(static_cast<std::size_t>(ranks));
        std::iota(all.begin(), all.end(), 0);
        tensor.slices.push_back(held(0, boxes::draw(random, 1, 1000), all));
        total += 2 * tensor.slices.back().box.count();
        largest = std::max(largest, 2 * tensor.slices.back().box.count());
      }
    }
    const auto writers = choose_writers(tensors, ranks);
    std::vector<std::int64_t> load(static_cast<std::size_t>(ranks));
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      ASSERT_EQ(writers[t].size(), tensors[t].slices.size());
      for (std::size_t s = 0; s < writers[t].size(); ++s) {
        const auto& slice = tensors[t].slices[s];
        load[static_cast<std::size_t>(
            slice.holders.at(static_cast<std::size_t>(writers[t][s])).rank)] +=
            2 * slice.box.count();
      }
    }
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    EXPECT_LE(*most - *least, largest);
    EXPECT_EQ(std::accumulate(load.begin(), load.end(), std::int64_t{0}), total);
    EXPECT_EQ(choose_writers(tensors, ranks), writers);
  }
}

/// The bytes of the rank that writes most.
std::int64_t fullest(const std::vector<CoveredTensor>& tensors,
                     const std::vector<std::vector<int>>& writers, int ranks) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks));
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::size_t s = 0; s < writers[t].size(); ++s) {
      const auto& slice = tensors[t].slices[s];
      const auto& holder = slice.holders.at(static_cast<std::size_t>(writers[t][s]));
      load[static_cast<std::size_t>(holder.rank)] += slice.box.count();
    }
  }
  return *std::max_element(load.begin(), load.end());
}

/// The smallest such number: all choices are tried.
std::int64_t best(const std::vector<CoveredTensor>& tensors, int ranks) {
  const auto& slices = tensors[0].slices;
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks));
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const std::function<void(std::size_t, std::int64_t)> choose = [&](std::size_t s,
                                                                    std::int64_t most) {
    if (most >= least) return;
    if (s == slices.size()) {
      least = most;
      return;
    }
    for (const auto& holder : slices[s].holders) {
      auto& one = load[static_cast<std::size_t>(holder.rank)];
      one += slices[s].box.count();
      choose(s + 1, std::max(most, one));
      one -= slices[s].box.count();
    }
  };
  choose(0, 0);
  return least;
}

std::vector<CoveredTensor> random_replicas(Random& random, int ranks, bool same_size) {
  std::vector<CoveredTensor> tensors{{"r", DType::int8, {}, {}}};
  for (auto n = boxes::draw(random, 2, 9); n > 0; --n) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    all.resize(static_cast<std::size_t>(boxes::draw(random, 1, std::min(ranks, 3))));
    std::sort(all.begin(), all.end());
    tensors[0].slices.push_back(held(0, same_size ? 10 : boxes::draw(random, 1, 30), all));
  }
  return tensors;
}

TEST(ChooseWriters, NoneIsBetterForReplicasOfOneSize) {
  for (unsigned seed = 0; seed < test::rounds(2000u); ++seed) {
    Random random(seed);
    const int ranks = static_cast<int>(boxes::draw(random, 2, 6));
    const auto tensors = random_replicas(random, ranks, true);
    ASSERT_EQ(fullest(tensors, choose_writers(tensors, ranks), ranks), best(tensors, ranks))
        << "seed " << seed;
  }
}

TEST(ChooseWriters, LittleIsBetterForReplicasOfManySizes) {
  double worst = 1, sum = 0;
  const unsigned rounds = 2000;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    Random random(seed);
    const int ranks = static_cast<int>(boxes::draw(random, 2, 6));
    const auto tensors = random_replicas(random, ranks, false);
    const auto ratio =
        static_cast<double>(fullest(tensors, choose_writers(tensors, ranks), ranks)) /
        static_cast<double>(best(tensors, ranks));
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  EXPECT_LE(worst, 1.5);
  EXPECT_LE(sum / rounds, 1.01);
}

// Neighbours in a ring share blocks: the greedy choice alone leaves one rank with two of them.
TEST(ChooseWriters, HandsSlicesOnAlongChains) {
  const int ranks = 8;
  for (unsigned seed = 0; seed < test::rounds(50u); ++seed) {
    Random random(seed);
    std::vector<CoveredTensor> tensors{{"r", DType::int8, {}, {}}};
    for (int rank = 0; rank < ranks; ++rank) {
      const int next = (rank + 1) % ranks;
      tensors[0].slices.push_back(held(0, 5, {std::min(rank, next), std::max(rank, next)}));
    }
    std::shuffle(tensors[0].slices.begin(), tensors[0].slices.end(), random);
    EXPECT_EQ(fullest(tensors, choose_writers(tensors, ranks), ranks), 5) << "seed " << seed;
  }
}

TEST(ChooseWriters, RefusesHoldersThatAreNoRanks) {
  EXPECT_THAT(
      [] {
        choose_writers({{"u", DType::int8, {4}, {held(0, 4, {7})}}}, 4);
      },
      ThrowsMessage<Error>(test::Says("tensor 'u' is held by rank 7 of 4")));
  EXPECT_THAT(
      [] {
        choose_writers({{"u", DType::int8, {4}, {held(0, 4, {})}}}, 4);
      },
      ThrowsMessage<Error>(test::Says("has no holder")));
}

}  // namespace
}  // namespace cairn
