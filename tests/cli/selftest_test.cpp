// cairn selftest, of an installation and of a file system.
#include <gmock/gmock.h>

#include "cairn/version.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

using Listing = std::vector<std::string>;

TEST(SelfTest, TriesBothFormatsAndLeavesNothing) {
  ScratchDirectory scratch;
  const auto ran = run_tool({"selftest", scratch.path().string()});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, StartsWith(std::string("cairn ") + version() + "\n  compiler: "));
  EXPECT_THAT(ran.out, HasSubstr("\nbundle: saved"));
  EXPECT_THAT(ran.out, EndsWith("all is well\n"));
  EXPECT_EQ(scratch.listing(), Listing{});
  const auto nowhere = run_tool({"selftest", (scratch.path() / "nowhere").string()});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("nowhere"));
}

TEST(SelfTest, IsNotOfABucket) {
  for (const auto& words :
       {Listing{"selftest", "s3://b/run"}, Listing{"selftest", "s3://b/run", "--file-system"}}) {
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, Says("there is no self-test of s3://b/run"));
  }
}

TEST(SelfTestOfAFileSystem, SaysWhatItFoundAndLeavesNothing) {
  ScratchDirectory scratch;
  const auto ran = run_tool({"selftest", scratch.path().string(), "--file-system"});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("\n  a rename replaces at once: good: "));
  EXPECT_THAT(ran.out, HasSubstr("\n  locks: good: they exclude another process\n"));
  EXPECT_THAT(ran.out, HasSubstr("\ntwo hosts were not tried"));
  EXPECT_THAT(ran.out, EndsWith("\ncheckpoints may be kept here\n"));
  EXPECT_EQ(scratch.listing(), Listing{});
}

TEST(SelfTestOfAFileSystem, StartsAProgramWithAStrangePath) {
  ScratchDirectory scratch, place;
  const auto program = scratch.path() / "it's a $tool";
  std::filesystem::copy_file(CAIRN_TOOL, program);
  const auto ran =
      run_program({program.string(), "selftest", place.path().string(), "--file-system"});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\n  locks: good: they exclude another process\n"));
}

TEST(SelfTestOfAFileSystem, NeedsADirectoryAndASecondHost) {
  ScratchDirectory scratch;
  const auto place = scratch.path().string();
  EXPECT_EQ(run_tool({"selftest", "--file-system"}).status, 2);
  EXPECT_EQ(run_tool({"selftest", place, "--through", "ssh n2"}).status, 2);
  const auto nowhere = run_tool({"selftest", place + "/nowhere", "--file-system"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("nowhere"));
  // What starts the process may print lines of its own.
  const auto here =
      run_tool({"selftest", place, "--file-system", "--through", "echo hello; env A=b"});
  EXPECT_EQ(here.status, 2);
  EXPECT_THAT(here.err, Says("--through leads to this host"));
  const auto dead = run_tool({"selftest", place, "--file-system", "--through", "true"});
  EXPECT_EQ(dead.status, 2);
  EXPECT_THAT(dead.err, Says("the second process has ended"));
  EXPECT_EQ(scratch.listing(), Listing{});
}

// A tool that is killed cannot remove what it wrote: its second process does, though nobody reads
// its answers.
TEST(SelfTestOfAFileSystem, WhatAKilledOneWroteIsRemoved) {
  for (const char* unread : {"", "mkfifo pipe && exec 3<>pipe 4>pipe 3<&- 1>&4 && "}) {
    ScratchDirectory scratch;
    const auto place = scratch.path().string();
    std::filesystem::create_directory(scratch.path() / "cairn-file-system-1");
    const auto ran =
        run_program({"/bin/sh", "-c",
                     "cd '" + place + "' && " + unread + "printf '" + place +
                         "/cairn-file-system-1\\nput file text\\nread file\\n' | '" CAIRN_TOOL
                         "' second-process"});
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.out, *unread ? "" : "cairn: written\ncairn: text\n");
    EXPECT_EQ(scratch.listing(), *unread ? Listing{"pipe"} : Listing{});
  }
}

TEST(SelfTestOfAFileSystem, NothingElseIsRemoved) {
  ScratchDirectory scratch;
  const auto theirs = (scratch.path() / "theirs").string();
  std::filesystem::create_directory(theirs);
  const auto ran =
      run_program({"/bin/sh", "-c", "echo '" + theirs + "' | '" CAIRN_TOOL "' second-process"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(scratch.listing(), Listing{"theirs"});
}

}  // namespace
}  // namespace cairn::test
