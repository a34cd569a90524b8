// cairn xdmf. tests/interop/xdmf.py checks that others read the file.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Xdmf : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (scratch_.path() / name).string(); }
  void bundle(const std::string& name, double time) const {
    BundleWriter writer(at(name));
    const std::vector<double> field(24, time);
    const std::vector<float> at(12);
    const std::vector<std::int32_t> id(4);
    writer.add_slice("u", DType::float64, {4, 6}, {{0, 0}, {1, 6}}, field.data());
    writer.add_slice("u", DType::float64, {4, 6}, {{1, 0}, {3, 6}}, field.data());
    writer.add("p/position", at.data(), {4, 3});
    writer.add("p/id", id.data(), {4});
    writer.add("deep", field.data(), {1, 2, 3, 2, 2});
    writer.add("half", DType::float16, {4}, at.data());
    writer.add("none", field.data(), {0});
    writer.add("time", &time, {});
    writer.add_strings("words", {1}, std::vector<std::string>{"a"});
    writer.finish();
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  }

  ScratchDirectory scratch_;
};

TEST_F(Xdmf, AllStepsOfADirectory) {
  bundle("run-3", 2.5);
  bundle("run-20", 1.5);
  const auto ran = run_tool({"xdmf", at("")});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("run.xdmf: 2 checkpoints\n"));
  EXPECT_THAT(ran.out, test::Says("not shown: deep: of its shape [1 2 3 2 2] there is no grid\n"));
  EXPECT_THAT(ran.out, test::Says("not shown: half: XDMF has no floats of 16 bits\n"));
  EXPECT_THAT(ran.out, test::Says("not shown: none: it has no elements\n"));
  const auto text = read_bytes(at("run.xdmf"));
  EXPECT_LT(text.find("<Time Value=\"3\"/>"), text.find("<Time Value=\"20\"/>"));
  EXPECT_EQ(count(text, "3DCoRectMesh\" Dimensions=\"2 2 7\""), 2u);
  EXPECT_EQ(count(text, "3DCoRectMesh\" Dimensions=\"2 4 7\""), 2u);
  EXPECT_EQ(count(text, "Polyvertex"), 2u);
  EXPECT_EQ(count(text, "<Attribute Name=\"p/id\" AttributeType=\"Scalar\" Center=\"Node\""), 2u);
  EXPECT_EQ(count(text, ">run-3.data-00000-of-00001</DataItem>"), 4u);
  ASSERT_EQ(run_tool({"xdmf", at(""), "--time", "time", "--spacing", "0.5,2"}).status, 0);
  const auto timed = read_bytes(at("run.xdmf"));
  EXPECT_LT(timed.find("<Time Value=\"1.5\"/>"), timed.find("<Time Value=\"2.5\"/>"));
  EXPECT_THAT(timed, HasSubstr("XML\">0 0.5 0</DataItem>")) << "the second piece's corner";
  EXPECT_THAT(timed, HasSubstr("XML\">2 0.5 2</DataItem>"));
  EXPECT_THAT(scratch_.listing(), Not(testing::Contains(HasSubstr("tmp"))));
}

TEST_F(Xdmf, OneCheckpointShownFromElsewhere) {
  bundle("run-3", 2.5);
  EXPECT_EQ(run_tool({"xdmf", at("run-3")}).status, 0);
  EXPECT_THAT(read_bytes(at("run-3.xdmf")), HasSubstr(">run-3.data-00000-of-00001<"));
  std::filesystem::create_directory(at("look"));
  EXPECT_EQ(run_tool({"xdmf", at("run-3"), "-o", at("look/at.xdmf")}).status, 0);
  EXPECT_THAT(read_bytes(at("look/at.xdmf")), HasSubstr(">../run-3.data-00000-of-00001<"));
}

TEST_F(Xdmf, NotOfABucket) {
  for (const auto& words : {std::vector<std::string>{"xdmf", "s3://b/run"},
                            {"xdmf", "nowhere", "-o", "s3://b/x.xdmf"}}) {
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, test::Says("there is no XDMF for s3://b/"));
  }
}

TEST_F(Xdmf, ToAStreamWithWholePaths) {
  bundle("run-3", 2.5);
  const auto path = cat(">", at("run-3.data-00000-of-00001"), "<");
  const auto to = [&](const std::string& output) {
    return run_tool({"xdmf", at("run-3"), "-o", output});
  };
  const auto ran = to("/dev/stdout");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(StartsWith("<?xml"), HasSubstr(path), EndsWith("</Xdmf>\n")));
  EXPECT_THAT(ran.err, test::Says("not shown: none: it has no elements\n"));
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  const int pipe = ::open(at("pipe").c_str(), O_RDWR);
  ASSERT_GE(pipe, 0);
  const auto piped = to(at("pipe"));
  EXPECT_THAT(piped.out, HasSubstr("pipe: 1 checkpoint\n")) << piped.err;
  std::string read(ran.out.size(), '\0');
  EXPECT_EQ(::read(pipe, read.data(), read.size()), static_cast<ssize_t>(read.size()));
  EXPECT_EQ(read, ran.out);
  ::close(pipe);
  const auto both = run_tool({"xdmf", at("run-3"), "-o", "/dev/stdout", "--json"});
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(both.out, "");
  EXPECT_THAT(both.err, test::Says("--json and -o /dev/stdout both print"));
}

// What the file had before stays.
TEST_F(Xdmf, OutputsAreAddedToAStream) {
  bundle("run-3", 2.5);
  for (const std::string words : {"xdmf PREFIX", "cat PREFIX time", "map PREFIX u"}) {
    auto command = cat("'" CAIRN_TOOL "' ", words, " -o /dev/stdout 2>/dev/null");
    command.replace(command.find("PREFIX"), 6, at("run-3"));
    const auto alone = run_program({"/bin/sh", "-c", command});
    EXPECT_GT(alone.out.size(), 1u) << words;
    command = cat("echo first >", at("all"), "; ", command, " >>", at("all"));
    EXPECT_EQ(run_program({"/bin/sh", "-c", command}).status, 0) << words;
    EXPECT_EQ(read_bytes(at("all")), "first\n" + alone.out) << words;
  }
}

TEST_F(Xdmf, KeysThatMarkupCannotHoldDoNotBreakIt) {
  BundleWriter writer(at("odd"));
  const std::vector<double> field(4, 1.5);
  writer.add("a<b&\"c\"", field.data(), {4});
  writer.add("bell\x07", field.data(), {4});
  writer.finish();
  const auto ran = run_tool({"xdmf", at("odd")});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto text = read_bytes(at("odd.xdmf"));
  EXPECT_THAT(text, HasSubstr("Name=\"a&lt;b&amp;&quot;c&quot;\""));
  EXPECT_THAT(text, test::Says("not shown: bell?: its key has no place in an XDMF file"));
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
}

TEST_F(Xdmf, WhatIsWrong) {
  bundle("run-3", 2.5);
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"xdmf", at("")});
    const auto ran = run_tool(arguments);
    EXPECT_EQ(ran.status, 2) << ran.out;
    return ran.err;
  };
  EXPECT_THAT(error({"--spacing", "0"}), test::Says("spacing is 0"));
  EXPECT_THAT(error({"--spacing", "1,x"}), test::Says("'x' is no finite number"));
  EXPECT_THAT(error({"--origin", "1,2,3,4"}), test::Says("origin is 1,2,3,4"));
  EXPECT_THAT(error({"--points", "q"}), test::Says("'q' holds no positions of points"));
  EXPECT_THAT(error({"--points", "p/id"}), test::Says("it is int32 [4]"));
  EXPECT_THAT(error({"--time", "u"}), test::Says("'u' tells no time"));
  EXPECT_THAT(error({"--time", "words"}), test::Says("'words' tells no time"));
  EXPECT_THAT(error({"-o", at("no/x.xdmf")}), test::Says("there is no directory"));
  write_bytes(at("run.xdmf"), "somebody's");
  EXPECT_THAT(error({}), test::Says("Cairn did not make it"));
  EXPECT_EQ(read_bytes(at("run.xdmf")), "somebody's");
  bundle("other-3", 2.5);
  EXPECT_THAT(error({"-o", at("x.xdmf")}), test::Says("checkpoints of 2 names"));
  std::filesystem::create_directory(at("empty"));
  EXPECT_THAT(run_tool({"xdmf", at("empty")}).err, test::Says("there is no whole checkpoint"));
  EXPECT_THAT(run_tool({"xdmf", at("nothing")}).err, test::Says("there is no checkpoint"));
}

}  // namespace
}  // namespace cairn::test
