#include "model/descriptions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/json_depth.hpp"
#include "base/text.hpp"
#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/meta.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn::bundle {
namespace {

using testing::HasSubstr;

const Descriptions everything{
    .attributes = {{"yes", true},
                   {"least", std::numeric_limits<std::int64_t>::min()},
                   {"most", std::numeric_limits<std::uint64_t>::max()},
                   {"small", 5e-324},
                   {"minus zero", -0.0},
                   {"one", 1.0},
                   {"float", 0.1f},
                   {"text", std::string("a\0\"\n\xc3\xa9", 6)},
                   {"list", Json{"[1,2.5,\"x\",null,{\"a\":[]}]"}},
                   {"null", Json{"null"}}},
    .by_key = {{"u", {"m/s", {"y", "x"}, {"lon", "lat"}, {{"long name", "speed"}}}},
               {"fields", {.attributes = {{"kind", 7u}}}},
               {"nothing", {}}}};

TEST(DescriptionsAsJson, come_back) {
  EXPECT_EQ(descriptions::decode(descriptions::encode(everything)), everything);
  EXPECT_EQ(descriptions::encode({}), "");
  EXPECT_EQ(descriptions::decode(""), Descriptions{});
  // Bits are compared, since == does not distinguish all values.
  const auto back = descriptions::decode(descriptions::encode(everything));
  EXPECT_TRUE(std::signbit(std::get<double>(back.attributes.at("minus zero").value())));
}

TEST(DescriptionsAsJson, come_with_the_metadata) {
  CheckpointMeta meta;
  meta.descriptions = everything;
  EXPECT_EQ(decode_meta(encode_meta(meta)).descriptions, everything);
  EXPECT_THAT(encode_meta({}), testing::Not(HasSubstr("descriptions")));
}

// Another version may have allowed values that this one does not accept from an application: a
// reader that writes metadata again, as a restore from nodes does, must not fail for them.
TEST(DescriptionsAsJson, what_was_read_can_be_written_again) {
  for (const Descriptions& said :
       {Descriptions{.attributes = {{"_nc3_title", "a run"}}},
        Descriptions{.attributes = {{"", 1}}},
        Descriptions{.by_key = {{"u", {.units = std::string("m\0", 2)}}}},
        Descriptions{.by_key = {{"u", {.dimensions = {"y/x"}, .coordinates = {"a b"}}}}},
        Descriptions{.by_key = {{"u", {.attributes = {{"units", "m"}}}}}},
        Descriptions{
            .attributes = {{"deep", Json{std::string(34, '[') + std::string(34, ']')}}}}}) {
    const auto text = descriptions::encode(said);
    EXPECT_EQ(descriptions::decode(text), said) << text;
    CheckpointMeta meta;
    meta.descriptions = said;
    EXPECT_EQ(decode_meta(encode_meta(meta)).descriptions, said) << text;
    try {
      descriptions::encode_new(said);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
    }
  }
}

TEST(DescriptionsAsJson, lists_and_texts_are_json) {
  const Attribute numbers = std::vector{0.5, 2.0, 1e300};
  EXPECT_EQ(numbers.json(), "[0.5,2.0,1e+300]");
  const Attribute words = std::vector<std::string>{"a\"b", "\x01"};
  EXPECT_EQ(words.json(), R"(["a\"b","\u0001"])");
  EXPECT_EQ(Attribute(std::vector<std::int64_t>{-1, 2}).json(), "[-1,2]");
  EXPECT_EQ(Attribute(-0.0).json(), "-0.0");
  EXPECT_EQ(Attribute(1e22).json(), "1e+22");
}

// To print a parsed text takes as much stack as the text is deep.
TEST(DescriptionsAsJson, depth_is_seen_before_anything_is_parsed) {
  EXPECT_EQ(json_depth(R"({"a]": [[], "[\"["]})"), 3);
  const std::string deep(2'000'000, '[');
  EXPECT_THROW(descriptions::decode(deep), Error);
  try {
    decode_meta("{\"descriptions\": " + deep);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), test::Says("nested too deep"));
  }
}

// A checkpoint of DCP has one object for each number that is not a tensor.
TEST(DescriptionsAsJson, tens_of_thousands_of_objects) {
  Descriptions said;
  for (int i = 0; i < test::rounds(60'000); ++i) {
    said.by_key[cat("optimizer.state.layers.", i, ".attention.step")].attributes = {
        {"dcp", "bytes"}, {"value", i}};
  }
  const auto text = descriptions::encode(said);
  EXPECT_GT(text.size(), test::rounds(std::size_t{4} << 20));
  EXPECT_EQ(descriptions::decode(text), said);
  said.attributes.insert_or_assign("large", std::string(std::size_t{64} << 20, 'x'));
  try {
    descriptions::encode_new(said);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_THAT(error.what(), test::Says("are the limit"));
  }
}

TEST(DescriptionsAsJson, what_is_damaged_is_said) {
  for (const auto& [text, why] :
       {std::pair("[]", "no JSON object"), std::pair(R"({"attributes": 3})", "no object"),
        std::pair(R"({"tensors": []})", "no object"),
        std::pair(R"({"tensors": {"u": 3}})", "of a tensor is no object"),
        std::pair(R"({"tensors": {"u": {"units": 3}}})", "\"units\" is no text"),
        std::pair(R"({"tensors": {"u": {"dimensions": "x"}}})", "no array"),
        std::pair(R"({"tensors": {"u": {"coordinates": [1]}}})", "a name is no text")}) {
    try {
      descriptions::decode(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss);
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
}

}  // namespace
}  // namespace cairn::bundle
