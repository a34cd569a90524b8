// The order of samples: a permutation that never changes and is fair.
#include "model/permutation.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace cairn {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> first(const Permutation& permutation, std::int64_t count) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(permutation(i));
  return all;
}

TEST(Permutation, HasEachNumberOnce) {
  for (const std::int64_t count :
       {1, 2, 3, 7, 9, 10, 255, 256, 257, 258, 272, 273, 289, 290, 1000, 4096, 65537}) {
    for (const std::int64_t epoch : {0, 1, 77}) {
      auto all = first(Permutation(count, 5, epoch), count);
      std::sort(all.begin(), all.end());
      for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
    }
  }
}

// Checkpoints have positions that mean these samples, so these expectations must never change.
TEST(Permutation, IsAStableFormat) {
  EXPECT_THAT(first(Permutation(10, 0, 0), 10), ElementsAre(7, 5, 1, 6, 8, 4, 3, 2, 0, 9));
  EXPECT_THAT(first(Permutation(10, 42, 3), 10), ElementsAre(2, 8, 4, 7, 5, 6, 3, 0, 9, 1));
  EXPECT_THAT(first(Permutation(256, 42, 0), 6), ElementsAre(118, 23, 72, 40, 102, 204));
  EXPECT_THAT(first(Permutation(257, 42, 0), 6), ElementsAre(94, 56, 242, 174, 224, 207));
  EXPECT_THAT(first(Permutation(1'000'000, 42, 0), 6),
              ElementsAre(412045, 911844, 609011, 380655, 663470, 663082));
  EXPECT_THAT(first(Permutation(1'000'000, ~std::uint64_t{0}, 7), 6),
              ElementsAre(382132, 103347, 368129, 966482, 984464, 228448));
  EXPECT_THAT(first(Permutation(std::int64_t{1} << 40, 42, 0), 4),
              ElementsAre(514942526258, 234734716624, 88278327754, 1074758842478));
  EXPECT_THAT(first(Permutation(std::int64_t{1} << 62, 42, 0), 4),
              ElementsAre(4084890518322010161, 415658129219809817, 182365103241644961,
                          2187334874198238668));
}

// Chi-squared of counts that should be equal, minus its mean, in standard deviations.
double deviation(const std::map<std::vector<std::int64_t>, int>& counts, double kinds) {
  double all = 0, squares = 0;
  for (const auto& [kind, count] : counts) all += count;
  const double even = all / kinds;
  for (const auto& [kind, count] : counts) squares += (count - even) * (count - even) / even;
  squares += (kinds - static_cast<double>(counts.size())) * even;
  return (squares - (kinds - 1)) / std::sqrt(2 * (kinds - 1));
}

// Consecutive seeds and epochs, as programs use them.
template <class Take>
double deviation_over_keys(std::int64_t count, double kinds, const Take& take) {
  std::map<std::vector<std::int64_t>, int> counts;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
      ++counts[take(Permutation(count, seed, epoch))];
    }
  }
  return deviation(counts, kinds);
}

TEST(Permutation, HasEachOrderOfAFewAsOften) {
  double orders = 2;
  for (std::int64_t count = 3; count <= 6; ++count) {
    orders *= static_cast<double>(count);
    const auto all = [&](const Permutation& permutation) { return first(permutation, count); };
    EXPECT_LT(deviation_over_keys(count, orders, all), 5) << count;
  }
}

TEST(Permutation, HasEachPairOfSamplesAtTwoPlacesAsOften) {
  for (std::int64_t count = 3; count <= 10; ++count) {
    for (const std::int64_t place : {std::int64_t{1}, count / 2, count - 1}) {
      const auto pair = [&](const Permutation& permutation) {
        return std::vector{permutation(0), permutation(place)};
      };
      const auto kinds = static_cast<double>(count * (count - 1));
      EXPECT_LT(deviation_over_keys(count, kinds, pair), 5) << count << " at " << place;
    }
  }
}

// With many samples: where the first and the last one come, and how far neighbours are separated.
TEST(Permutation, SpreadsManyEvenly) {
  constexpr std::int64_t count = 3000;
  for (const std::int64_t place : {std::int64_t{0}, std::int64_t{1}, count / 2, count - 1}) {
    const auto part = [&](const Permutation& permutation) {
      return std::vector{permutation(place) * 30 / count};
    };
    EXPECT_LT(deviation_over_keys(count, 30, part), 5) << place;
    const auto step = [&](const Permutation& permutation) {
      const auto next = permutation((place + 1) % count);
      return std::vector{(next - permutation(place) + count - 1) % count * 30 / (count - 1)};
    };
    EXPECT_LT(deviation_over_keys(count, 30, step), 5) << place;
  }
}

}  // namespace
}  // namespace cairn
