#include <gmock/gmock.h>

#include "exchange/coverage.hpp"
#include "exchange/gaps.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

using boxes::Random;

bool touches_any(const Box& box, const std::vector<Box>& all) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Box& other) { return overlaps(box, other); });
}

/// The gap is free, inside the shape, and cannot grow at any face.
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
  // An L-shaped gap in both orientations: the result is the larger of the boxes that fit.
  EXPECT_EQ(find_gap(whole, {{{0, 0}, {500, 300}}}), (Box{{0, 300}, {512, 212}}));
  EXPECT_EQ(find_gap(whole, {{{0, 0}, {300, 500}}}), (Box{{300, 0}, {212, 512}}));
  EXPECT_EQ(find_gap(Box::whole({}), {}), Box::whole({}));
  EXPECT_EQ(find_gap(Box::whole({4, 0}), {}), std::nullopt);
}

TEST(FindGaps, AreWhatNoBoxHolds) {
  Random random(21);
  for (int round = 0; round < 1000; ++round) {
    const auto whole = Box::whole(boxes::random_shape(random));
    auto all = boxes::decompose(random, whole);
    std::erase_if(all, [&](const Box&) { return boxes::chance(random, 40); });
    // Some boxes come twice, and some reach beyond the box that is looked at.
    for (auto n = boxes::draw(random, 0, 3); n > 0 && !all.empty(); --n) {
      all.push_back(all[random() % all.size()]);
    }
    const auto wanted = boxes::random_box(random, whole);
    auto expected = boxes::elements(wanted);
    for (const auto& at : boxes::elements(all)) expected.erase(at);
    const auto gaps = find_gaps(wanted, all);
    std::size_t elements = 0;
    for (const auto& gap : gaps) elements += static_cast<std::size_t>(gap.count());
    ASSERT_EQ(elements, expected.size()) << "they are disjoint";
    ASSERT_EQ(boxes::elements(gaps), expected);
    ASSERT_TRUE(std::is_sorted(gaps.begin(), gaps.end()));
  }
}

TEST(FindGaps, AreFew) {
  const auto whole = Box::whole({512, 512});
  EXPECT_EQ(find_gaps(whole, {}), std::vector<Box>{whole});
  EXPECT_EQ(find_gaps(whole, {{{0, 0}, {128, 512}}, {{256, 0}, {256, 512}}}),
            (std::vector<Box>{{{128, 0}, {128, 512}}}));
  EXPECT_EQ(find_gaps(whole, {{{100, 100}, {50, 50}}}).size(), 4u);
  EXPECT_TRUE(find_gaps(whole, {whole, whole}).empty());
  EXPECT_EQ(find_gaps(Box::whole({}), {}), std::vector<Box>{Box::whole({})});
  EXPECT_TRUE(find_gaps(Box::whole({4, 0}), {}).empty());
  // A frame, of many pieces: the inside is one box.
  std::vector<Box> frame;
  for (std::int64_t i = 0; i < 512; i += 4) {
    frame.insert(frame.end(), {{{i, 0}, {4, 8}}, {{i, 504}, {4, 8}}});
    if (i >= 8 && i < 504) frame.insert(frame.end(), {{{0, i}, {8, 4}}, {{504, i}, {8, 4}}});
  }
  EXPECT_EQ(find_gaps(whole, frame), (std::vector<Box>{{{8, 8}, {496, 496}}}));
}

// Overlaps break the contract, and the proof of coverage finds them. The search must still end.
TEST(FindGaps, ComesToAnEndWhereBoxesOverlap) {
  Random random(22);
  for (int round = 0; round < 300; ++round) {
    const auto whole = Box::whole(boxes::random_shape(random));
    std::vector<Box> all;
    for (int i = 0; i < 20; ++i) all.push_back(boxes::random_box(random, whole));
    for (const auto& gap : find_gaps(whole, all)) EXPECT_TRUE(whole.contains(gap));
  }
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
