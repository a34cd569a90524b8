// cairn view and cairn show --values.
#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <limits>

#include "cairn/bundle.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class View : public testing::Test {
 protected:
  View() {
    BundleWriter writer(at("b"));
    std::vector<double> plane(8 * 12), five(2 * 3 * 2 * 4 * 5);
    for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = static_cast<double>(i);
    for (std::size_t i = 0; i < five.size(); ++i) five[i] = static_cast<double>(i);
    const std::vector<float> nans(20, std::numeric_limits<float>::quiet_NaN()), same(20, 2.5f);
    const std::complex<double> waves[] = {{3, 4}, {0, 0}, {-6, 8}, {1, 0}};
    const bool flags[] = {true, false, true, true};
    const std::int64_t step = 42;
    writer.add("plane", plane.data(), {8, 12});
    writer.add("five", five.data(), {2, 3, 2, 4, 5});
    writer.add("nans", nans.data(), {4, 5});
    writer.add("same", same.data(), {4, 5});
    writer.add("waves", waves, {2, 2});
    writer.add("flags", flags, {4});
    writer.add("step", &step, {});
    writer.add("empty", plane.data(), {0, 3});
    writer.add_strings("words", {1}, std::vector<std::string>{"a"});
    writer.finish();
  }

  std::string at(const char* name) const { return (scratch_.path() / name).string(); }
  Ran view(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"view", at("b")});
    return run_tool(arguments);
  }
  // The colours of a PPM file, in the middle of each cell of its plot, whose frame is black.
  static std::string head(const std::string& file) { return read_bytes(file).substr(0, 2); }

  ScratchDirectory scratch_;
};

TEST_F(View, PlanesInLettersWhereThereIsNoTerminal) {
  const auto ran = view({"plane", "--slice", ":,0"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("float64 [8 12]  [:,0]"));
  const auto plane = view({"plane"});
  EXPECT_THAT(plane.out, HasSubstr("  [:,:]\n"));
  EXPECT_THAT(plane.out, HasSubstr("@@"));
  EXPECT_THAT(plane.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(plane.out, HasSubstr("0 "));
  EXPECT_THAT(plane.out, HasSubstr(" 95\n"));
}

TEST_F(View, ColoursGoByTheTerminal) {
  const auto shown = [&](const char* term, const char* promise, const char* no_color) {
    setenv("TERM", term, 1);
    setenv("COLORTERM", promise, 1);
    setenv("NO_COLOR", no_color, 1);
    auto out = run_tool_on_terminal({"view", at("b"), "plane"}, 60);
    for (const auto* name : {"COLORTERM", "NO_COLOR"}) unsetenv(name);
    return out;
  };
  const auto full = shown("xterm", "truecolor", "");
  EXPECT_THAT(full, HasSubstr("\x1b[38;2;68;1;84m"));
  EXPECT_THAT(full, HasSubstr("\x1b[48;2;"));
  const auto palette = shown("xterm-256color", "", "");
  EXPECT_THAT(palette, HasSubstr("\x1b[38;5;53m"));
  EXPECT_THAT(palette, Not(HasSubstr(";2;68;1;84")));
  EXPECT_THAT(shown("dumb", "", ""), Not(HasSubstr("\x1b")));
  EXPECT_THAT(shown("xterm-256color", "truecolor", "1"), Not(HasSubstr("\x1b")));
}

TEST_F(View, FiveDimensions) {
  const auto ran = view({"five", "-o", at("five.ppm")});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "fixed in the middle: dimensions 0 at 1, 1 at 1, 2 at 1 (--slice 1,1,1,:,: picks)\n");
  EXPECT_EQ(head(at("five.ppm")), "P6");
  EXPECT_EQ(view({"five", "--slice", "0,2,1,3,4"}).out, "119\n");
  EXPECT_THAT(view({"five", "--slice", "0,2,1,3,4", "-o", at("x.ppm")}).err,
              test::Says("a single element is selected"));
  const auto map = run_tool({"map", at("b"), "five"});
  EXPECT_EQ(map.status, 2);
  EXPECT_THAT(map.err, test::Says("'five' [2 3 2 4 5] (1 to 3 dimensions can be drawn)"));
  const auto differs = run_tool({"diff", at("b"), at("b"), "five", "--picture", at("d.ppm")});
  EXPECT_EQ(differs.status, 0) << differs.err;
  EXPECT_EQ(head(at("d.ppm")), "P6");
  EXPECT_EQ(run_tool({"show", at("b"), "--values", "five"}).status, 0);
}

TEST_F(View, ScalarsAreValues) {
  EXPECT_EQ(view({"step"}).out, "42\n");
  EXPECT_EQ(view({"plane", "--slice", "-1,-1"}).out, "95\n");
}

TEST_F(View, SaysWhatIsNoNumber) {
  const auto nans = view({"nans", "-o", at("nans.ppm")});
  EXPECT_EQ(nans.status, 0) << nans.err;
  EXPECT_EQ(nans.out, "20 of 20 elements are NaN (two greys)\nno finite number is there\n");
  EXPECT_THAT(view({"nans"}).out, HasSubstr("?????"));
  const auto line = view({"nans", "--slice", "0", "-o", at("line.ppm")});
  EXPECT_EQ(line.status, 0) << line.err;
  EXPECT_EQ(line.out, "5 of 5 elements are NaN\nno finite number is there\n");
  EXPECT_EQ(head(at("line.ppm")), "P6");
  EXPECT_THAT(view({"nans", "--log"}).out, test::Says("no number above 0 is there"));
  EXPECT_EQ(view({"nans", "--range", "0:1"}).status, 0);
  const auto differs = run_tool({"diff", at("b"), at("b"), "nans", "--picture", "-"});
  EXPECT_EQ(differs.status, 0) << differs.err;
  EXPECT_THAT(differs.out, test::Says("0 of 20 elements differ"));
  EXPECT_THAT(view({"same"}).out, test::Says("all numbers are 2.5"));
  EXPECT_EQ(view({"same", "-o", at("same.ppm")}).out, "all numbers are 2.5\n");
  EXPECT_THAT(view({"waves"}).out, test::Says("absolute values of complex numbers"));
  EXPECT_THAT(view({"waves"}).out, HasSubstr(" 10\n"));
  EXPECT_THAT(view({"waves", "--log"}).out, test::Says("1 not above 0"));
  EXPECT_EQ(view({"flags"}).status, 0);
}

TEST_F(View, WhatCannotBeDrawn) {
  const auto error = [&](std::vector<std::string> arguments) {
    const auto ran = view(std::move(arguments));
    EXPECT_EQ(ran.status, 2) << ran.out;
    return ran.err;
  };
  EXPECT_THAT(error({"words"}), test::Says("it holds strings"));
  EXPECT_THAT(error({"empty"}), test::Says("its shape [0 3] has no elements"));
  EXPECT_THAT(error({"Plane"}), test::Says("Did you mean 'plane'?"));
  for (const char* range :
       {"1:1", "2:1", "nan:nan", "nan:1", "0:inf", "1e400:2", "1", ":", "a:b"}) {
    EXPECT_THAT(error({"plane", "--range", range}),
                HasSubstr(std::string(range) + " is no range of numbers"));
  }
  EXPECT_THAT(error({"plane", "--range", "0:1", "--log"}), HasSubstr("above 0"));
  EXPECT_THAT(error({"plane", "--slice", "8,:"}), test::Says("index 8 is outside"));
  EXPECT_THAT(error({"plane", "-o", at("x.jpg")}), test::Says("neither in .png nor in .ppm"));
  EXPECT_THAT(error({"plane", "-o", at("no/x.ppm")}), test::Says("cannot write"));
}

TEST_F(View, DamageIsNoPicture) {
  auto bytes = read_bytes(at("b.data-00000-of-00001"));
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(at("b.data-00000-of-00001"), bytes);
  const auto values = run_tool({"show", at("b"), "--values", "--json"});
  EXPECT_EQ(values.status, 1);
  EXPECT_THAT(values.out, HasSubstr("checksum"));
}

TEST_F(View, ValuesOfAllTensors) {
  const auto ran = run_tool({"show", at("b"), "--values"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(
      ran.out,
      HasSubstr("  tensor      min   max   mean  deviation  NaN  infinite  zero  elements\n"));
  EXPECT_THAT(ran.out, HasSubstr("words   strings"));
  const auto found = run_tool({"show", at("b"), "--values", "--json"}).json()["tensors"];
  const auto of = [&](const char* key) {
    for (const auto& one : found) {
      if (one["key"] == key) return one;
    }
    return nlohmann::json();
  };
  EXPECT_EQ(of("plane")["mean"], 47.5);
  EXPECT_EQ(of("plane")["max"]["index"], (std::vector{7, 11}));
  EXPECT_EQ(of("nans")["nan"], 20);
  EXPECT_EQ(of("nans")["mean"], nullptr);
  EXPECT_EQ(of("flags")["mean"], 0.75);
  EXPECT_EQ(of("waves")["max"]["value"], 10.0);
  EXPECT_EQ(of("waves")["zero"], 1);
  EXPECT_EQ(of("empty")["elements"], 0);
  EXPECT_EQ(of("step")["min"]["text"], "42");
}

TEST_F(View, HistogramOfOne) {
  const auto ran = run_tool({"show", at("b"), "--values", "flags"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("  0  1  \u2588"));
  EXPECT_THAT(ran.out, HasSubstr("  1  3  \u2588"));
  const auto found = run_tool({"show", at("b"), "--json", "--values", "plane"}).json();
  EXPECT_EQ(found["histogram"]["counts"], (std::vector<int>(16, 6)));
  EXPECT_THAT(run_tool({"show", at("b"), "--values", "nans"}).out, HasSubstr("20 of 20"));
  EXPECT_EQ(run_tool({"show", at("b"), "--values", "other"}).status, 2);
}

}  // namespace
}  // namespace cairn::test
