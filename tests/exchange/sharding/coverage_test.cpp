#include "exchange/coverage.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "cairn/error.hpp"
#include "exchange/sharding/decompositions.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using boxes::Random;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Declaration say(int rank, std::vector<Box> boxes, Dims shape = {512, 512},
                DType dtype = DType::float64) {
  return {"u", dtype, std::move(shape), rank, std::move(boxes)};
}

Box rows(std::int64_t from, std::int64_t to) { return {{from, 0}, {to - from, 512}}; }

void expect_refused(std::vector<Declaration> declarations, Code code,
                    const testing::Matcher<std::string>& text) {
  try {
    check_coverage(std::move(declarations));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(std::string(error.what()), text);
    EXPECT_EQ(error.tensor(), "u");
  }
}

TEST(Coverage, NamesAGap) {
  expect_refused(
      {say(0, {rows(0, 128)}), say(1, {rows(256, 512)}), say(2, {})}, Code::coverage,
      AllOf(StartsWith("tensor 'u' [512 512]: rows 128..255 × 0..511 are held by no rank ("),
            test::Says("65536 of its 262144 elements are missing")));
}

TEST(Coverage, ATensorThatNobodyHoldsIsAGap) {
  expect_refused({say(0, {}), say(1, {})}, Code::coverage,
                 test::Says("rows 0..511 × 0..511 are held by no rank"));
  expect_refused({say(3, {}, {})}, Code::coverage,
                 StartsWith("tensor 'u' []: the scalar is held by no rank"));
  expect_refused({say(3, {Box{{2, 2}, {0, 3}}})}, Code::coverage,
                 test::Says("rows 0..511 × 0..511 are held by no rank"));
}

TEST(Coverage, NamesAnOverlapAndBothSlices) {
  expect_refused(
      {say(2, {rows(0, 128)}), say(0, {rows(0, 512)})}, Code::coverage,
      StartsWith("tensor 'u' [512 512]: rows 0..127 × 0..511 are held by rank 0 and by rank "
                 "2 in differing slices: rows 0..511 × 0..511 and rows 0..127 × 0..511 ("));
  expect_refused({say(4, {rows(0, 300), rows(200, 512)})}, Code::coverage,
                 test::Says("rows 200..299 × 0..511 are held twice by rank 4 in differing slices: "
                            "rows 0..299 × 0..511 and rows 200..511 × 0..511"));
}

TEST(Coverage, NamesASliceGivenTwice) {
  expect_refused(
      {say(0, {rows(0, 256)}), say(1, {rows(256, 512), rows(256, 512)})}, Code::coverage,
      StartsWith("tensor 'u' [512 512]: rows 256..511 × 0..511 are given twice by rank 1 ("));
  // The same if the rank declares the tensor twice.
  expect_refused({say(0, {rows(0, 512)}), say(1, {rows(0, 512)}), say(0, {rows(0, 512)})},
                 Code::coverage, test::Says("are given twice by rank 0"));
  expect_refused({say(0, {Box{}, Box{}}, {})}, Code::coverage,
                 test::Says("the scalar is given twice by rank 0"));
}

TEST(Coverage, NamesASliceOutside) {
  const auto top = std::numeric_limits<std::int64_t>::max();
  expect_refused(
      {say(0, {rows(0, 512)}), say(3, {rows(500, 513)})}, Code::coverage,
      StartsWith("tensor 'u' [512 512]: rows 500..512 × 0..511 of rank 3 are outside of it ("));
  expect_refused({say(0, {Box{{-1, 0}, {4, 4}}})}, Code::coverage, HasSubstr("rows -1..2 × 0..3"));
  expect_refused(
      {say(0, {Box{{5, 5}, {top, 1}}})}, Code::coverage,
      test::Says("the box with start [5 5] and extent [9223372036854775807 1] of rank 0"));
  expect_refused({say(0, {Box{{5, 5}, {-2, 1}}})}, Code::coverage, HasSubstr("extent [-2 1]"));
  expect_refused({say(0, {Box{{5}, {1}}})}, Code::coverage, test::Says("rows 5..5 of rank 0"));
  expect_refused({say(0, {Box{{5, 5}, {1}}})}, Code::coverage,
                 test::Says("start [5 5] and extent [1]"));
}

TEST(Coverage, NamesDisagreementsWithTheLowestRanks) {
  expect_refused(
      {say(7, {}, {512, 512}, DType::float32), say(5, {}, {512, 512}, DType::float32),
       say(3, {rows(0, 512)}), say(9, {})},
      Code::disagreement,
      StartsWith("tensor 'u' has differing dtypes: float64 [512 512] on rank 3, float32 [512 "
                 "512] on rank 5 ("));
  expect_refused({say(1, {}, {512}), say(0, {rows(0, 512)})}, Code::disagreement,
                 StartsWith("tensor 'u' has differing shapes: float64 [512 512] on rank 0, float64 "
                            "[512] on rank 1 ("));
  expect_refused(
      {say(1, {}, {3, 512}), say(0, {rows(0, 512)})}, Code::disagreement,
      test::Says("Rows whose number differs from rank to rank are given with cairn::ragged"));
  expect_refused({say(1, {}, {512}, DType::int8), say(0, {})}, Code::disagreement,
                 test::Says("differing dtypes and shapes"));
}

TEST(Coverage, RefusesShapesThatAreNone) {
  expect_refused({say(2, {}, {3, -1})}, Code::invalid_argument,
                 StartsWith("tensor 'u', declared by rank 2: shape [3 -1] has a negative extent"));
}

TEST(Coverage, StringsAreWhole) {
  expect_refused(
      {say(0, {Box{{0}, {2}}}, {4}, DType::string), say(1, {Box{{2}, {2}}}, {4}, DType::string)},
      Code::coverage,
      StartsWith("tensor 'u' [4]: rank 0 holds only rows 0..1 of it (a string tensor is whole"));
  const auto tensors =
      check_coverage({say(2, {Box::whole({4})}, {4}, DType::string), say(1, {}, {4}, DType::string),
                      say(0, {Box::whole({4})}, {4}, DType::string)});
  ASSERT_EQ(tensors.size(), 1u);
  ASSERT_EQ(tensors[0].slices.size(), 1u);
  EXPECT_EQ(tensors[0].slices[0].box, Box::whole({4}));
  EXPECT_EQ(tensors[0].slices[0].holders[0], (HeldSlice::Holder{0, 0}));
  EXPECT_EQ(tensors[0].slices[0].holders[1], (HeldSlice::Holder{2, 0}));
}

TEST(Coverage, TensorsWithoutElementsHaveOneHolder) {
  for (const auto dtype : {DType::float32, DType::string}) {
    const auto holder_of = [&](std::vector<Declaration> declarations) {
      for (auto& declaration : declarations) declaration.dtype = dtype;
      const auto tensors = check_coverage(std::move(declarations));
      EXPECT_EQ(tensors.at(0).slices.size(), 1u);
      EXPECT_EQ(tensors[0].slices[0].box, Box::whole({4, 0}));
      EXPECT_EQ(tensors[0].slices[0].holders.size(), 1u);
      return tensors[0].slices[0].holders[0];
    };
    const Dims shape{4, 0};
    const Box whole = Box::whole(shape);
    EXPECT_EQ(holder_of({say(2, {}, shape), say(1, {}, shape)}), (HeldSlice::Holder{1, -1}));
    EXPECT_EQ(holder_of({say(2, {whole}, shape), say(1, {}, shape)}), (HeldSlice::Holder{1, -1}));
    EXPECT_EQ(holder_of({say(2, {whole}, shape), say(1, {whole}, shape)}),
              (HeldSlice::Holder{1, 0}));
    EXPECT_EQ(holder_of({say(1, {whole, whole}, shape)}), (HeldSlice::Holder{1, 0}));
  }
}

TEST(Coverage, ResultIsAscendingByKeyAndBox) {
  std::vector<Declaration> declarations;
  for (const char* key : {"b", "a", "c"}) {
    for (const int rank : {1, 0}) {
      declarations.push_back({key, DType::int8, {4}, rank, {Box{{rank * 2}, {2}}}});
    }
  }
  const auto tensors = check_coverage(declarations);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].key + tensors[1].key + tensors[2].key, "abc");
  for (const auto& tensor : tensors) {
    EXPECT_EQ(tensor.slices.at(0).box, (Box{{0}, {2}}));
    EXPECT_EQ(tensor.slices.at(1).box, (Box{{2}, {2}}));
  }
  EXPECT_TRUE(check_coverage({}).empty());
}

TEST(Coverage, ARankThatSpeaksTwiceGoesOnCounting) {
  const auto tensors = check_coverage(
      {say(1, {rows(0, 100), rows(100, 200)}), say(0, {}), say(1, {rows(200, 512)})});
  EXPECT_EQ(tensors.at(0).slices.at(2).holders.at(0), (HeldSlice::Holder{1, 2}));
}

/// The verdict of an element-by-element look at the boxes of all ranks.
struct Truth {
  bool outside = false, twice = false, overlap = false, gap = false;
  std::map<Box, std::vector<std::pair<int, int>>> holders;
};

Truth look(const Dims& shape, const std::vector<Declaration>& declarations) {
  Truth truth;
  std::map<Dims, int> count;
  const auto inside = boxes::elements(Box::whole(shape));
  for (const auto& declaration : declarations) {
    for (std::size_t b = 0; b < declaration.boxes.size(); ++b) {
      const auto& box = declaration.boxes[b];
      const auto of_box = boxes::elements(box);
      for (const auto& at : of_box) truth.outside |= !inside.count(at);
      if (of_box.empty()) continue;
      auto& holders = truth.holders[box];
      for (const auto& holder : holders) truth.twice |= holder.first == declaration.rank;
      if (holders.empty()) {
        for (const auto& at : of_box) truth.overlap |= ++count[at] > 1;
      }
      holders.emplace_back(declaration.rank, static_cast<int>(b));
    }
  }
  for (auto& [box, holders] : truth.holders) std::sort(holders.begin(), holders.end());
  for (const auto& at : inside) truth.gap |= !count.count(at);
  return truth;
}

TEST(Coverage, AgreesWithSetsOfElements) {
  Random random(17);
  std::map<std::string, int> seen;
  for (int round = 0; round < test::rounds(6000); ++round) {
    const auto shape = boxes::random_shape(random);
    const auto whole = Box::whole(shape);
    const int ranks = static_cast<int>(boxes::draw(random, 1, 6));
    std::vector<Declaration> declarations;
    for (int rank = 0; rank < ranks; ++rank) declarations.push_back(say(rank, {}, shape));
    const auto anyone = [&]() -> std::vector<Box>& {
      return declarations[random() % declarations.size()].boxes;
    };
    auto all = boxes::decompose(random, whole);
    if (boxes::chance(random, 25)) all.pop_back();
    if (boxes::chance(random, 15)) all.push_back(boxes::random_box(random, whole));
    if (boxes::chance(random, 10)) all.push_back({whole.start, Dims(shape.size(), 0)});
    if (!shape.empty() && boxes::chance(random, 5)) {
      all.push_back(boxes::random_box(random, whole));
      all.back().extent[0] += shape[0];
    }
    for (const auto& box : all) {
      anyone().push_back(box);
      while (boxes::chance(random, 15)) {
        auto& other = anyone();
        if (std::find(other.begin(), other.end(), box) == other.end()) other.push_back(box);
      }
    }
    if (!all.empty() && boxes::chance(random, 5)) anyone().push_back(all.front());
    std::shuffle(declarations.begin(), declarations.end(), random);

    const auto truth = look(shape, declarations);
    const char* expected = truth.outside   ? "outside of it"
                           : truth.twice   ? "given twice by rank"
                           : truth.overlap ? "in differing slices"
                           : truth.gap     ? "held by no rank"
                                           : "";
    ++seen[expected];
    try {
      const auto tensors = check_coverage(declarations);
      ASSERT_STREQ(expected, "") << "was not noticed";
      std::map<Box, std::vector<std::pair<int, int>>> holders;
      Box last{Dims(shape.size(), -1), {}};
      for (const auto& slice : tensors.at(0).slices) {
        for (const auto& holder : slice.holders)
          holders[slice.box].emplace_back(holder.rank, holder.box);
        EXPECT_TRUE(shape.empty() || last < slice.box) << "not ascending";
        last = slice.box;
      }
      EXPECT_EQ(holders, truth.holders);
    } catch (const Error& error) {
      ASSERT_STRNE(expected, "") << error.what();
      EXPECT_THAT(error.what(), HasSubstr(expected));
      // The order in which declarations arrive does not matter.
      std::shuffle(declarations.begin(), declarations.end(), random);
      try {
        check_coverage(declarations);
        ADD_FAILURE();
      } catch (const Error& again) {
        EXPECT_STREQ(again.what(), error.what());
      }
    }
  }
  for (const char* kind :
       {"outside of it", "given twice by rank", "in differing slices", "held by no rank"}) {
    EXPECT_GT(seen[kind], test::rounds(50)) << kind;
  }
  EXPECT_GT(seen[""], test::rounds(1000));
}

// The quick check and the search for overlaps and gaps agree.
TEST(Coverage, BoxesInLine) {
  Random random(11);
  int in_line = 0, others = 0;
  for (int round = 0; round < test::rounds(4000); ++round) {
    const auto shape = boxes::random_shape(random, 3);
    const Box whole = Box::whole(shape);
    std::vector<Box> parts;
    if (shape.empty()) {
      parts.assign(static_cast<std::size_t>(boxes::draw(random, 0, 2)), whole);
    } else {
      const auto d = static_cast<std::size_t>(
          boxes::draw(random, 0, static_cast<std::int64_t>(shape.size()) - 1));
      for (std::int64_t at = 0; at < shape[d];) {
        Box part = whole;
        part.start[d] = at;
        part.extent[d] = boxes::draw(random, 1, shape[d] - at);
        at += part.extent[d];
        parts.push_back(part);
      }
      // Now and then one number of a box, or a whole box, is made wrong.
      auto& one = parts[random() % parts.size()];
      const auto at = random() % shape.size();
      if (boxes::chance(random, 15)) one.start[at] += boxes::draw(random, -1, 1);
      if (boxes::chance(random, 15)) one.extent[at] += boxes::draw(random, -1, 1);
      if (boxes::chance(random, 10)) parts.pop_back();
      if (!parts.empty() && boxes::chance(random, 10)) std::swap(parts.front(), parts.back());
    }
    const bool told = are_in_line(
        shape, parts, [](const Box& box) -> auto& { return box; });
    if (!told) {
      ++others;
      continue;
    }
    ++in_line;
    for (const auto& part : parts) EXPECT_TRUE(whole.contains(part));
    EXPECT_FALSE(find_overlap(parts));
    EXPECT_FALSE(find_gap(whole, parts));
  }
  EXPECT_GT(in_line, test::rounds(1500));
  EXPECT_GT(others, test::rounds(500));
}

TEST(Coverage, BoxesInLineOfAnyNumbers) {
  const auto told = [](const Dims& shape, const std::vector<Box>& parts) {
    return are_in_line(
        shape, parts, [](const Box& box) -> auto& { return box; });
  };
  constexpr auto top = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(told({4}, {{{0}, {1}}, {{1}, {3}}}));
  EXPECT_FALSE(told({4}, {{{0}, {1}}, {{1}, {top}}}));
  EXPECT_FALSE(told({4}, {{{0}, {5}}, {{5}, {-1}}})) << "negative";
  EXPECT_FALSE(told({4}, {{{0}, {0}}, {{0}, {4}}})) << "a box without elements";
  EXPECT_FALSE(told({4}, {{{0, 0}, {4, 1}}})) << "another rank";
  EXPECT_FALSE(told({4, 4}, {{{0}, {4, 4}}})) << "two ranks";
  EXPECT_FALSE(told({4}, {}));
  EXPECT_TRUE(told({0, 3}, {Box::whole({0, 3})}));
  EXPECT_TRUE(told({}, {Box{}}));
  EXPECT_FALSE(told({}, {Box{}, Box{}})) << "twice";
  EXPECT_FALSE(told({4, 2}, {Box::whole({4, 2}), Box::whole({4, 2})})) << "twice";
}

TEST(Coverage, ThousandRanksOfHundredSlices) {
  std::vector<Declaration> declarations;
  for (int rank = 0; rank < 1000; ++rank) {
    declarations.push_back(say(rank, {}, {1000, 100}));
    for (std::int64_t i = 0; i < 100; ++i) {
      declarations.back().boxes.push_back({{(rank * 7 + i * 13) % 1000, i}, {1, 1}});
    }
  }
  const auto tensors = check_coverage(declarations);
  EXPECT_EQ(tensors.at(0).slices.size(), 100000u);
}

}  // namespace
}  // namespace cairn
