#include <gmock/gmock.h>

#include <numeric>

#include "cairn/error.hpp"
#include "sharding/coverage.hpp"
#include "sharding/decompositions.hpp"

namespace cairn {
namespace {

using boxes::Random;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

HeldSlice held(std::int64_t start, std::int64_t extent, const std::vector<int>& ranks) {
  HeldSlice slice{{{start}, {extent}}, {}};
  for (const auto rank : ranks) slice.holders.push_back({rank, 0});
  return slice;
}

TEST(ChooseWriters, UnreplicatedSlicesCountFirst) {
  // Rank 0 has much of its own, so the replica goes to rank 2.
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

TEST(ChooseWriters, TakesBytesFromTheCaller) {
  const std::vector<CoveredTensor> tensors{{"a", DType::string, {}, {{Box{}, {{0, 0}, {1, 0}}}}},
                                           {"b", DType::string, {}, {{Box{}, {{0, 0}, {1, 0}}}}},
                                           {"c", DType::string, {}, {{Box{}, {{0, 0}, {1, 0}}}}}};
  const auto bytes = [](std::size_t t, std::size_t) { return std::int64_t{t == 2 ? 100 : 10}; };
  EXPECT_THAT(choose_writers(tensors, 2, bytes),
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

TEST(ChooseWriters, RefusesHoldersThatAreNoRanks) {
  EXPECT_THAT(
      [] {
        choose_writers({{"u", DType::int8, {4}, {held(0, 4, {7})}}}, 4);
      },
      ThrowsMessage<Error>(HasSubstr("tensor 'u' is held by rank 7 of 4")));
  EXPECT_THAT(
      [] {
        choose_writers({{"u", DType::int8, {4}, {held(0, 4, {})}}}, 4);
      },
      ThrowsMessage<Error>(HasSubstr("has no holder")));
}

}  // namespace
}  // namespace cairn
