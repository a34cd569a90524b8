#include "cairn/box.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <random>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::set<Dims> elements(const Box& box) {
  std::set<Dims> all;
  if (box.empty()) return all;
  Dims at = box.start;
  for (;;) {
    all.insert(at);
    std::size_t d = box.rank();
    while (d-- > 0) {
      if (++at[d] < box.end(d)) break;
      at[d] = box.start[d];
      if (d == 0) return all;
    }
    if (box.rank() == 0) return all;
  }
}

TEST(Shape, CountsAndRefuses) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, 5}), 0);
  EXPECT_EQ(element_count({0, std::int64_t{1} << 62, 8}), 0);
  EXPECT_EQ(element_count({std::int64_t{1} << 62}), std::int64_t{1} << 62);
  EXPECT_THAT(
      [] {
        element_count({std::int64_t{1} << 32, std::int64_t{1} << 31});
      },
      ThrowsMessage<Error>(HasSubstr("2^63")));
  EXPECT_THAT([] { element_count({-1}); }, ThrowsMessage<Error>(HasSubstr("negative")));
  EXPECT_THAT([] { element_count(Dims(255, 1)); }, ThrowsMessage<Error>(HasSubstr("255")));
}

// Each operation is defined by that on sets of elements.
TEST(Box, AgreesWithSetsOfElements) {
  std::mt19937 random(1);
  for (int round = 0; round < test::rounds(3000); ++round) {
    const auto rank = random() % 4;
    Box a, b;
    for (auto* box : {&a, &b}) {
      for (unsigned d = 0; d < rank; ++d) {
        box->start.push_back(random() % 5);
        box->extent.push_back(random() % 5);
      }
    }
    const auto in_a = elements(a), in_b = elements(b);
    std::set<Dims> common, rest;
    for (const auto& e : in_a) (in_b.count(e) ? common : rest).insert(e);
    const auto cut = intersect(a, b);
    EXPECT_EQ(cut ? elements(*cut) : std::set<Dims>{}, common);
    EXPECT_EQ(cut.has_value(), !common.empty());
    EXPECT_EQ(overlaps(a, b), !common.empty());
    EXPECT_EQ(a.contains(b), common.size() == in_b.size());
    std::set<Dims> pieces;
    std::size_t total = 0;
    for (const auto& piece : subtract(a, b)) {
      const auto in_piece = elements(piece);
      EXPECT_FALSE(in_piece.empty());
      total += in_piece.size();
      pieces.insert(in_piece.begin(), in_piece.end());
    }
    EXPECT_EQ(pieces, rest);
    EXPECT_EQ(total, rest.size()) << "pieces overlap";
    EXPECT_LE(subtract(a, b).size(), 2 * rank);
  }
}

TEST(Box, NumbersThatAreTooLargeLieOutside) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const auto whole = Box::whole({4, 4});
  for (const Box& other : {Box{{most - 1, 0}, {3, 1}}, Box{{1, most}, {1, most}},
                           Box{{3, 0}, {-2, 1}}, Box{{0, 0}, {3}}, Box{{0}, {3, 1}}}) {
    EXPECT_FALSE(whole.contains(other)) << box_text(other);
  }
  EXPECT_TRUE(Box::whole({most}).contains({{most - 1}, {1}}));
  EXPECT_EQ(box_text({{most}, {1}}), cat("with start [", most, "] and extent [1]"));
}

TEST(Box, Text) {
  EXPECT_EQ(box_text({{128, 0}, {128, 512}}), "rows 128..255 × 0..511");
  EXPECT_EQ(box_text({}), "the scalar");
  EXPECT_EQ(shape_text({512, 512}), "[512 512]");
}

TEST(SliceSpec, ParsesAndPrintsTheSameText) {
  for (const char* text :
       {"40 30 0,20:15,15", "40 30 0,20:-", "4 -", "4 0 0,2:-", "5 5,0", "", "1 1 1 -:-:0,1"}) {
    EXPECT_EQ(to_string(parse_slice_spec(text)), text);
  }
  const auto spec = parse_slice_spec("40 30 0,20:-");
  EXPECT_EQ(spec.shape, (Dims{40, 30}));
  EXPECT_EQ(spec.box, (Box{{0, 0}, {20, 30}}));
  EXPECT_EQ(spec.dash, (std::vector<bool>{false, true}));
  EXPECT_TRUE(parse_slice_spec("").unstated);
  EXPECT_EQ(slice_spec_text({40, 30}, {{0, 15}, {20, 15}}), "40 30 0,20:15,15");
}

TEST(SliceSpec, RefusesMalformedText) {
  for (const char* text :
       {"40", "40 30 0,20", "40 0,20:1,1", "40 0,41", "40 20,21", "40 -1,3", "40 0;3", "40  0,3",
        " 40 0,3", "40 0,3 ", "40 0,", "40 ,3", "x 0,1", "40 0,9223372036854775807",
        "40 0,9223372036854775808", "40 0,1:", "4294967296 4294967296 0,1:0,1"}) {
    EXPECT_THROW(parse_slice_spec(text), Error) << text;
  }
}

}  // namespace
}  // namespace cairn
