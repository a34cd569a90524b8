#include <gmock/gmock.h>

#include "sharding/coverage.hpp"
#include "sharding/decompositions.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

using boxes::Random;

bool touches_any(const Box& box, const std::vector<Box>& all) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Box& other) { return overlaps(box, other); });
}

/// Free, inside, and blocked on each face.
void expect_maximal(const Box& gap, const Box& whole, const std::vector<Box>& all) {
  EXPECT_FALSE(gap.empty());
  EXPECT_TRUE(whole.contains(gap));
  EXPECT_FALSE(touches_any(gap, all));
  for (std::size_t d = 0; d < whole.rank(); ++d) {
    Box wider = gap;
    ++wider.extent[d];
    EXPECT_TRUE(!whole.contains(wider) || touches_any(wider, all)) << box_text(gap);
    --wider.start[d];
    EXPECT_TRUE(!whole.contains(wider) || touches_any(wider, all)) << box_text(gap);
  }
}

TEST(FindGap, AgreesWithSetsOfElements) {
  Random random(5);
  int gaps = 0;
  for (int round = 0; round < test::rounds(4000); ++round) {
    const auto whole = Box::whole(boxes::random_shape(random));
    auto all = boxes::decompose(random, whole);
    for (auto n = boxes::draw(random, 0, 2); n > 0 && !all.empty(); --n) all.pop_back();
    all.push_back({whole.start, Dims(whole.rank(), 0)});
    if (whole.rank() == 0) all.pop_back();
    const bool covered = boxes::elements(all) == boxes::elements(whole);
    const auto gap = find_gap(whole, all);
    ASSERT_EQ(gap.has_value(), !covered);
    if (!gap) continue;
    ++gaps;
    expect_maximal(*gap, whole, all);
    EXPECT_EQ(find_gap(whole, all), gap) << "not deterministic";
  }
  EXPECT_GT(gaps, test::rounds(1000));
}

TEST(FindGap, OfASmallerBoxThanTheOthersCover) {
  Random random(6);
  for (int round = 0; round < 1000; ++round) {
    const auto all_of_it = Box::whole(boxes::random_shape(random));
    auto all = boxes::decompose(random, all_of_it);
    if (boxes::chance(random, 50)) all.pop_back();
    const auto wanted = boxes::random_box(random, all_of_it);
    bool covered = true;
    boxes::for_each_element(wanted, [&](const Dims& at) {
      covered &= touches_any(Box{at, Dims(at.size(), 1)}, all);
    });
    const auto gap = find_gap(wanted, all);
    ASSERT_EQ(gap.has_value(), !covered);
    if (gap) expect_maximal(*gap, wanted, all);
  }
}

TEST(FindGap, ReportsTheWholeOfAPlainGap) {
  const auto whole = Box::whole({512, 512});
  EXPECT_EQ(find_gap(whole, {}), whole);
  EXPECT_EQ(find_gap(whole, {{{0, 0}, {128, 512}}, {{256, 0}, {256, 512}}}),
            (Box{{128, 0}, {128, 512}}));
  // An L-shaped gap, lying either way: the larger of the boxes that fit.
  EXPECT_EQ(find_gap(whole, {{{0, 0}, {500, 300}}}), (Box{{0, 300}, {512, 212}}));
  EXPECT_EQ(find_gap(whole, {{{0, 0}, {300, 500}}}), (Box{{300, 0}, {212, 512}}));
  EXPECT_EQ(find_gap(Box::whole({}), {}), Box::whole({}));
  EXPECT_EQ(find_gap(Box::whole({4, 0}), {}), std::nullopt);
}

TEST(FindGap, OneMissingPatchOfManyIsNamedExactly) {
  Random random(8);
  auto all = boxes::guillotine(random, Box::whole({3000, 3000, 3000}), 20000);
  for (int round = 0; round < 10; ++round) {
    const auto missing = all[random() % all.size()];
    auto others = all;
    std::erase(others, missing);
    EXPECT_EQ(find_gap(Box::whole({3000, 3000, 3000}), others), missing);
  }
}

}  // namespace
}  // namespace cairn
