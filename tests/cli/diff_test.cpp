// cairn diff and cairn map.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <complex>
#include <fstream>
#include <limits>
#include <regex>

#include "cairn/bundle.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/group.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

class Diff : public testing::Test {
 protected:
  std::string at(const char* name) const { return (scratch_.path() / name).string(); }

  // A bundle with the contents that `fill` writes, under a name of its own.
  template <class F>
  std::string bundle(const char* name, F&& fill) const {
    BundleWriter writer(at(name));
    fill(writer);
    writer.finish();
    return at(name);
  }
  template <class T>
  std::string one(const char* name, const std::vector<T>& values, const Dims& shape = {}) const {
    return bundle(name, [&](BundleWriter& writer) {
      writer.add("x", values.data(),
                 shape.empty() ? Dims{static_cast<std::int64_t>(values.size())} : shape);
    });
  }
  static nlohmann::json only(const Ran& ran) {
    EXPECT_EQ(ran.status, 1) << ran.err;
    const auto found = ran.json()["differences"];
    EXPECT_EQ(found.size(), 1u) << ran.out;
    return found.at(0);
  }

  ScratchDirectory scratch_;
};

TEST_F(Diff, HowATensorIsCutDoesNotCount) {
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto whole = one("whole", values, {4, 2});
  const auto cut = bundle("cut", [&](BundleWriter& writer) {
    writer.add_slice("x", DType::float64, {4, 2}, {{0, 0}, {1, 2}}, values.data());
    writer.add_slice("x", DType::float64, {4, 2}, {{1, 0}, {3, 2}}, values.data() + 2);
  });
  const auto ran = run_tool({"diff", whole, cut});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, StartsWith("same: 1 tensor, bit by bit"));
}

TEST_F(Diff, SaysHowFarAndWhere) {
  const auto a = one<double>("a", {0, 1, 100, -5, 8, 0}, {2, 3});
  const auto b = one<double>("b", {0, 1.5, 101, -5, 8, 0}, {2, 3});
  const auto found = only(run_tool({"diff", "--json", a, b}));
  EXPECT_EQ(found["key"], "x");
  EXPECT_EQ(found["kind"], "values");
  EXPECT_EQ(found["differing"], 2);
  EXPECT_EQ(found["first"]["index"], (std::vector{0, 1}));
  EXPECT_EQ(found["first"]["a"], "1");
  EXPECT_EQ(found["first"]["b"], "1.5");
  EXPECT_EQ(found["max_absolute"]["value"], 1.0);
  EXPECT_EQ(found["max_absolute"]["index"], (std::vector{0, 2}));
  EXPECT_DOUBLE_EQ(found["max_relative"]["value"], 0.5 / 1.5);
  EXPECT_EQ(found["max_relative"]["index"], (std::vector{0, 1}));
  const auto text = run_tool({"diff", a, b});
  EXPECT_THAT(text.out, test::Says("x: values: 2 of 6 elements differ"));
  EXPECT_THAT(text.out, test::Says("first at [0,1]: 1 and 1.5"));
  EXPECT_THAT(text.out, test::Says("largest difference 1 at [0,2], relative 0.333333 at [0,1]"));
}

TEST_F(Diff, TolerancesAreRelativeAndAbsolute) {
  const auto a = one<float>("a", {1, 1000, not_a_number, 0.f});
  const auto b = one<float>("b", {1.25f, 1001, std::bit_cast<float>(0x7fc00001u), -0.f});
  EXPECT_EQ(only(run_tool({"diff", "--json", a, b}))["differing"], 4);
  EXPECT_EQ(only(run_tool({"diff", "--json", "--tolerance", "0.01", a, b}))["differing"], 1);
  EXPECT_EQ(only(run_tool({"diff", "--json", "--absolute", "0.25", a, b}))["differing"], 1);
  EXPECT_EQ(run_tool({"diff", "--absolute", "1", a, b}).status, 0);
  EXPECT_EQ(run_tool({"diff", "--tolerance", "0.2", a, b}).status, 0);
  for (const char* bad : {"-1", "nan", "inf", "1x", ""}) {
    EXPECT_EQ(run_tool({"diff", "--tolerance", bad, a, b}).status, 2) << bad;
  }
}

TEST_F(Diff, LargeIntegersAreNotRounded) {
  constexpr std::int64_t large = (std::int64_t{1} << 62) + 1;
  const auto a = one<std::int64_t>("a", {large, -large});
  const auto b = one<std::int64_t>("b", {large + 1, -large});
  const auto found = only(run_tool({"diff", "--json", "--absolute", "0.5", a, b}));
  EXPECT_EQ(found["differing"], 1);
  EXPECT_EQ(found["max_absolute"]["value"], 1.0);
  EXPECT_EQ(run_tool({"diff", "--absolute", "1", a, b}).status, 0);
  const auto c = one<std::uint64_t>("c", {0, ~std::uint64_t{0}});
  const auto d = one<std::uint64_t>("d", {0, 0});
  EXPECT_EQ(only(run_tool({"diff", "--json", c, d}))["max_absolute"]["value"], 0x1p64);
}

TEST_F(Diff, ComplexNumbersByParts) {
  using C = std::complex<float>;
  const auto a = one<C>("a", {{1, 2}, {3, 4}});
  const auto b = one<C>("b", {{1, 2.5f}, {3, 4}});
  const auto found = only(run_tool({"diff", "--json", a, b}));
  EXPECT_EQ(found["first"]["a"], "(1,2)");
  EXPECT_EQ(found["first"]["b"], "(1,2.5)");
  EXPECT_EQ(found["max_absolute"]["value"], 0.5);
}

TEST_F(Diff, KeysTypesShapesAndStrings) {
  const std::vector<float> four = {1, 2, 3, 4};
  const std::vector<std::int32_t> integers = {1, 2, 3, 4};
  const auto a = bundle("a", [&](BundleWriter& writer) {
    writer.add("gone", four.data(), {4});
    writer.add("retyped", four.data(), {4});
    writer.add("reshaped", four.data(), {4});
    writer.add_strings("words", {2}, std::vector<std::string>{"same", "old"});
  });
  const auto b = bundle("b", [&](BundleWriter& writer) {
    writer.add("new", four.data(), {4});
    writer.add("retyped", integers.data(), {4});
    writer.add("reshaped", four.data(), {2, 2});
    writer.add_strings("words", {2}, std::vector<std::string>{"same", "young"});
  });
  const auto ran = run_tool({"diff", a, b});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out,
            "gone: only in A: float32 [4]\n"
            "new: only in B: float32 [4]\n"
            "reshaped: shape: [4] and [2 2]\n"
            "retyped: dtype: float32 and int32\n"
            "words: values: 1 of 2 elements differ\n"
            "  first at [1]: \"old\" and \"young\"\n");
}

TEST_F(Diff, StringsAreShownWhereTheyDiffer) {
  const std::string start(99, 'x');
  const auto make = [&](const char* name, const std::vector<std::string>& values) {
    return bundle(name, [&](BundleWriter& writer) { writer.add_strings("s", {1}, values); });
  };
  const auto a = make("a", {start + "\u00e9\x1b[31m"}), b = make("b", {start + "\u00e8"});
  const auto ran = run_tool({"diff", a, b});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, HasSubstr("x\u00e9\\x1b[31m\" and \"..."));
  EXPECT_THAT(ran.out, HasSubstr("x\u00e8\"\n"));
  EXPECT_THAT(only(run_tool({"diff", "--json", a, b}))["first"]["b"].get<std::string>(),
              HasSubstr("x\u00e8"));
}

TEST_F(Diff, InfinitePartsAreTheSame) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  using C = std::complex<double>;
  const auto a = one<C>("a", {{infinity, 1}, {-infinity, 1}, {1, infinity}});
  const auto b = one<C>("b", {{infinity, 1.001}, {-infinity, 1}, {1.001, infinity}});
  EXPECT_EQ(run_tool({"diff", "--tolerance", "0.01", a, b}).status, 0);
  const auto c = one<C>("c", {{-infinity, 1}, {-infinity, 1}, {1, infinity}});
  EXPECT_EQ(only(run_tool({"diff", "--json", "--tolerance", "0.01", a, c}))["differing"], 1);
}

TEST_F(Diff, DamageIsNoDifference) {
  const auto a = one<float>("a", {1, 2, 3});
  const auto b = one<float>("b", {1, 2, 3});
  auto bytes = read_bytes(b + ".data-00000-of-00001");
  bytes[5] ^= 1;
  write_bytes(b + ".data-00000-of-00001", bytes);
  const auto ran = run_tool({"diff", a, b});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.out, test::Says("x: cannot be read"));
  EXPECT_THAT(ran.out, HasSubstr("checksum"));
  EXPECT_EQ(run_tool({"diff", a, at("nothing")}).status, 2);
}

TEST_F(Diff, PictureOfWhereTheyDiffer) {
  std::vector<double> values(5 * 6 * 7);
  const auto a = one("a", values, {5, 6, 7});
  values[4 * 42 + 2 * 7 + 3] = 1.5;  // the largest
  values[4 * 42 + 2 * 7 + 4] = 1e-6;
  values[0] = not_a_number;
  values[4 * 42] = not_a_number;
  values[4 * 42 + 1] = -0.0;
  const auto b = one("b", values, {5, 6, 7});
  const auto ran = run_tool({"diff", a, b, "x", "--picture", "-"});
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_THAT(ran.out, test::Says("x: values: 5 of 210 elements differ"));
  EXPECT_THAT(ran.out, HasSubstr("|a - b|, logarithmic  float64 [5 6 7]  [4,:,:]"));
  EXPECT_THAT(ran.out, HasSubstr("dimension 0 at 4 (--slice 4,:,: picks)"));
  EXPECT_THAT(ran.out, test::Says("4 of 42 elements differ"));
  EXPECT_THAT(ran.out, test::Says("2 of them by no number"));
  EXPECT_THAT(ran.out, HasSubstr("????"));
  EXPECT_THAT(ran.out, HasSubstr("1e-06 "));
  EXPECT_THAT(ran.out, HasSubstr(" 1.5"));
  EXPECT_EQ(run_tool({"diff", a, b, "x", "--picture", at("d.ppm"), "--slice", "0"}).status, 1);
  EXPECT_THAT(read_bytes(at("d.ppm")), StartsWith("P6\n"));
  EXPECT_THAT(run_tool({"diff", a, b, "x", "--picture", "-", "--slice", "1"}).out,
              test::Says("0 of 42 elements differ"));
  EXPECT_THAT(run_tool({"diff", a, b, "x", "--picture", "-", "--slice", "4,2,:"}).out,
              test::Says("2 of 7 elements differ"));
  EXPECT_THAT(run_tool({"diff", "--absolute", "1e-3", a, b, "x", "--picture", "-"}).out,
              test::Says("2 of 42 elements differ"));
  EXPECT_EQ(run_tool({"diff", a, a, "x", "--picture", "-"}).status, 0);
  EXPECT_EQ(run_tool({"diff", a, b, "--picture", "-"}).status, 2);
  EXPECT_EQ(run_tool({"diff", a, b, "x", "--picture", "-", "--slice", "0,0,0"}).status, 2);
  const auto c = one("c", values, {5, 42});
  EXPECT_THAT(run_tool({"diff", a, c, "x", "--picture", "-"}).err,
              HasSubstr("shape: [5 6 7] and [5 42]"));
}

TEST_F(Diff, WhatIsSaidOfTensorsCounts) {
  const auto save = [&](const char* name, const char* units, double time, bool with_note) {
    std::vector<double> u = {1, 2};
    State state;
    state.add("u", u);
    state.add("v", u);
    state.describe(Attributes{{"time", time}});
    Description said;
    said.units = units;
    if (with_note) said.attributes.emplace("note", "from \"A\"");
    state.describe("u", said);
    CheckpointManager(serial_group(), at(name)).save(1, state);
    return at(name);
  };
  const auto a = save("a", "m", 0.5, true), b = save("b", "km", 0.25, false);
  const auto same = save("same", "m", 0.5, true);
  EXPECT_EQ(run_tool({"diff", a, same}).status, 0);
  const auto ran = run_tool({"diff", a, b});
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_THAT(ran.out, test::Says("(checkpoint): \"time\": 0.5 and 0.25\nu: \"units\": \"m\" and "
                                  "\"km\"\nu: \"note\": \"from \\\"A\\\"\" only in A\n"));
  const auto json = run_tool({"diff", "--json", b, a}).json();
  EXPECT_EQ(json["same"], false);
  ASSERT_EQ(json["descriptions"].size(), 3u);
  EXPECT_EQ(json["descriptions"][0], (nlohmann::json{{"name", "time"}, {"a", 0.25}, {"b", 0.5}}));
  EXPECT_EQ(json["descriptions"][2]["b"], "from \"A\"");
  EXPECT_FALSE(json["descriptions"][2].contains("a"));
  // For one tensor, only its own descriptions are compared.
  EXPECT_EQ(run_tool({"diff", a, b, "v"}).status, 0);
  EXPECT_EQ(run_tool({"diff", "--json", a, b, "u"}).json()["descriptions"].size(), 2u);
}

TEST_F(Diff, OneTensorOnly) {
  const std::vector<float> four = {1, 2, 3, 4}, others = {1, 2, 3, 5};
  const auto make = [&](const char* name, const std::vector<float>& y) {
    return bundle(name, [&](BundleWriter& writer) {
      writer.add("x", four.data(), {4});
      writer.add("y", y.data(), {4});
    });
  };
  const auto a = make("a", four), b = make("b", others);
  EXPECT_EQ(run_tool({"diff", a, b, "x"}).status, 0);
  EXPECT_EQ(run_tool({"diff", a, b, "y"}).status, 1);
  EXPECT_EQ(run_tool({"diff", a, b, "z"}).status, 2);
}

// Rectangles in the picture that show a slice: x, y, width, height, title.
struct Drawn {
  double x, y, width, height;
  std::string title, fill;
};
std::vector<Drawn> drawn(const std::string& svg) {
  static const std::regex pattern(
      "<rect x=\"([^\"]*)\" y=\"([^\"]*)\" width=\"([^\"]*)\" height=\"([^\"]*)\" "
      "fill=\"([^\"]*)\"[^>]*><title>([^<]*)</title></rect>");
  std::vector<Drawn> found;
  for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at) {
    const auto& m = *at;
    found.push_back(
        {std::stod(m[1]), std::stod(m[2]), std::stod(m[3]), std::stod(m[4]), m[6], m[5]});
  }
  return found;
}

TEST_F(Diff, MapDrawsEachSliceWhereItIs) {
  const std::vector<float> values(24);
  const auto prefix = bundle("plane", [&](BundleWriter& writer) {
    writer.add_slice("u", DType::float32, {4, 6}, {{0, 0}, {4, 2}}, values.data());
    writer.add_slice("u", DType::float32, {4, 6}, {{0, 2}, {1, 4}}, values.data());
    writer.add_slice("u", DType::float32, {4, 6}, {{1, 2}, {3, 4}}, values.data());
  });
  ASSERT_EQ(run_tool({"map", prefix, "u", "-o", at("u.svg")}).status, 0);
  const auto svg = read_bytes(at("u.svg"));
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, test::Says("float32 [4 6], 3 slices in 1 file"));
  const auto slices = drawn(svg);
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_THAT(slices[0].title, StartsWith("rows 0..3 × 0..1\nfile 0 at byte 0, 32 B"));
  const auto width = slices[0].width + slices[1].width, height = slices[0].height;
  EXPECT_NEAR(slices[0].width / width, 2.0 / 6, 1e-4);
  EXPECT_NEAR(height / width, 4.0 / 6, 1e-4);
  EXPECT_NEAR(slices[1].height / height, 1.0 / 4, 1e-4);
  EXPECT_NEAR(slices[2].y, slices[1].y + slices[1].height, 1e-3);
  EXPECT_NEAR(slices[2].x, slices[0].x + slices[0].width, 1e-3);
}

TEST_F(Diff, MapOfThreeDimensionsHasAPlaneForEachCut) {
  const std::vector<float> values(64);
  const auto prefix = bundle("space", [&](BundleWriter& writer) {
    writer.add_slice("w", DType::float32, {4, 4, 4}, {{0, 0, 0}, {1, 4, 4}}, values.data());
    writer.add_slice("w", DType::float32, {4, 4, 4}, {{1, 0, 0}, {3, 2, 4}}, values.data());
    writer.add_slice("w", DType::float32, {4, 4, 4}, {{1, 2, 0}, {3, 2, 4}}, values.data());
    writer.add("line", values.data(), {64});
    writer.add("scalar", values.data(), {});
    writer.add("empty", values.data(), {0, 3});
  });
  const auto svg = run_tool({"map", prefix, "w"}).out;
  EXPECT_EQ(drawn(svg).size(), 3u);
  EXPECT_THAT(svg, HasSubstr(">[0..0]</text>"));
  EXPECT_THAT(svg, HasSubstr(">[1..3]</text>"));
  EXPECT_EQ(drawn(run_tool({"map", prefix, "line"}).out).size(), 1u);
  for (const auto* key : {"scalar", "empty", "missing"}) {
    const auto ran = run_tool({"map", prefix, key});
    EXPECT_EQ(ran.status, 2) << key;
    EXPECT_THAT(ran.err, HasSubstr(key));
  }
}

}  // namespace
}  // namespace cairn::test
