// Texts of a checkpoint, and names, that would change the terminal on which they are printed, or
// the lines for a program that reads them.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "base/text.hpp"
#include "cairn/attributes.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cli/tool.hpp"
#include "io/file_system.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "store/commit/names.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// Clears the screen, sets the window's title, returns, ends a line, has C1's CSI, and text that
// runs backwards.
const std::string evil =
    "\x1b[2J\x1b]0;title\x07\r\x7f\xc2\x9b"
    "5n \x1b[31mred\x1b[0m\nFORGED line \xe2\x80\xae"
    "sdrawkcab\xe2\x80\xa8"
    "FORGED";

// The output may have no control characters but line ends, and no line that the texts made.
void expect_plain(std::string out, const std::string& what) {
  SCOPED_TRACE(what);
  for (const char* none :
       {"\x1b", "\x07", "\x7f", "\r", "\xc2\x9b", "\xe2\x80\xae", "\xe2\x80\xa8", "\nFORGED"}) {
    EXPECT_THAT(out, Not(HasSubstr(none)));
  }
  EXPECT_EQ(out.find('\0'), out.npos);
}

class PlainOutput : public testing::Test {
 protected:
  // Both names and texts are evil.
  PlainOutput() : directory_(scratch_.path() / ("run" + evil)) {
    double value = 1;
    std::string word = evil;
    std::vector<double> axis{1, 2};
    State state;
    state.add("x", value).add("word", word).add("key" + evil, whole(&axis));
    Description said{.units = "m" + evil, .dimensions = {"d" + evil}};
    said.attributes.emplace("a" + evil, evil);
    state.describe("key" + evil, said);
    state.describe("x", {.units = "m" + evil, .attributes = {{"a" + evil, evil}}});
    state.describe(Attributes{{"title" + evil, evil}});
    CheckpointManager manager(serial_group(), directory_);
    manager.save(1, state);
    manager.save(2, state);
    rewrite_metadata();
  }
  // Writes metadata as no Cairn would.
  void rewrite_metadata() const {
    const auto prefix = directory_ / "ckpt-1";
    auto& files = *io::posix_file_system();
    auto contents = read_contents(files, prefix);
    auto meta = contents.meta.value();
    meta.policy = meta.version = meta.uuid = evil;
    meta.run.keep = evil;
    meta.statistics->blocking_because = evil;
    const auto text = bundle::encode_meta(meta);
    const auto stored = bundle::encode_strings({&text, 1});
    for (auto& one : contents.own) {
      if (one.key == bundle::meta_key) {
        one.slices[0].stored_bytes = one.slices[0].raw_bytes = std::ssize(stored.bytes);
        one.slices[0].crc32c = stored.crc32c;
        write_bytes(data_path(contents, one.slices[0].file), stored.bytes);
      }
      contents.tensors.push_back(one);
    }
    write_bytes(prefix.string() + ".index",
                bundle::build_index(contents.num_files, contents.tensors));
  }
  std::string prefix(int step) const { return (directory_ / cat("ckpt-", step)).string(); }
  std::vector<std::vector<std::string>> commands() const {
    const auto run = directory_.string(), key = "key" + evil;
    return {{"ls", run},
            {"show", prefix(1)},
            {"show", prefix(1), "--all"},
            {"show", prefix(1), "--values"},
            {"show", prefix(1), "--values", key},
            {"show", prefix(1), "--graph"},
            {"cat", prefix(1), "word"},
            {"cat", prefix(1), "nothing" + evil},
            {"cat", prefix(1) + evil, "x"},
            {"verify", prefix(1)},
            {"verify", run},
            {"stats", run},
            {"diff", prefix(1), prefix(2)},
            {"map", prefix(1), key},
            {"view", prefix(1), key},
            {"xdmf", run},
            {"gc", run, "--dry-run"},
            {"gc", run, "--max-to-keep", "1", "--dry-run"},
            {"pin", run, "2"},
            {"pin", run, "9"},
            {"convert", prefix(1), (scratch_.path() / ("to" + evil)).string()},
            {"merge", (scratch_.path() / ("all" + evil)).string(), prefix(1)},
            {"report", run, "-o", (scratch_.path() / "page.html").string()},
            {evil},
            {"ls", "--" + evil}};
  }

  ScratchDirectory scratch_;
  const fs::path directory_;
};

TEST_F(PlainOutput, APipeGetsLinesOfCairnsOnly) {
  for (const auto& words : commands()) {
    const auto ran = run_tool(words);
    EXPECT_LE(ran.status, 2);
    expect_plain(ran.out + "\n" + ran.err, words[0]);
  }
  EXPECT_THAT(
      run_tool({"show", prefix(1)}).out,
      HasSubstr(R"(m\x1b[2J\x1b]0;title\x07\x0d\x7f\xc2\x9b5n \x1b[31mred\x1b[0m\x0aFORGED )"));
  expect_plain(read_bytes(scratch_.path() / "page.html"), "report");
  EXPECT_THAT(run_tool({"cat", prefix(1), "word", "--format", "raw"}).out, HasSubstr(evil));
}

TEST_F(PlainOutput, ATerminalToo) {
  for (auto words : commands()) {
    std::string out;
    try {
      out = run_tool_on_terminal(words, 120);
    } catch (const std::runtime_error&) {  // the error is printed to the pipe above
      continue;
    }
    // Pictures have colours, and bars return to the beginning of their line.
    out = std::regex_replace(out, std::regex("\x1b\\[([0-9;]*m|K)"), "");
    if (words[0] != "view") expect_plain(out, words[0]);
  }
}

TEST_F(PlainOutput, JsonEscapesAndReadsAsWritten) {
  for (const auto& words : commands()) {
    if (words[0] != "ls" && words[0] != "show" && words[0] != "verify" && words[0] != "diff")
      continue;
    if (words.size() > 1 && words[1].starts_with("--")) continue;
    auto with = words;
    with.push_back("--json");
    const auto ran = run_tool(with);
    expect_plain(ran.out, words[0] + " --json");
    EXPECT_NO_THROW(ran.json()) << words[0];
  }
  const auto shown = run_tool({"show", prefix(1), "--json"}).json();
  EXPECT_EQ(shown["metadata"]["policy"], evil);
  bool found = false;
  for (const auto& tensor : shown["tensors"]) found = found || tensor["key"] == "key" + evil;
  EXPECT_TRUE(found);
}

// Output to a closed stream gets into no file.
TEST_F(PlainOutput, NoneWhereItIsClosed) {
  const auto with_closed = [&](const std::string& words, const std::string& closed) {
    return run_program({"/bin/sh", "-c", cat("exec '", CAIRN_TOOL, "' ", words, ' ', closed),
                        directory_.string()});
  };
  for (const auto* words : {"ls \"$0\"", "gc \"$0\"", "pin \"$0\" 2", "show \"$0\""}) {
    const auto ran = with_closed(words, ">&-");
    EXPECT_EQ(ran.status, 2) << words;
    EXPECT_THAT(ran.err, test::Says("cannot write to standard output")) << words;
    EXPECT_EQ(with_closed(words, "2>&- <&-").status, 0) << words;
  }
  EXPECT_EQ(with_closed("pin \"$0\" 9", "2>&-").status, 2);
  for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
    if (entry.is_regular_file()) {
      EXPECT_THAT(read_bytes(entry.path()), Not(HasSubstr("ckpt-2 ")));
      EXPECT_THAT(read_bytes(entry.path()), Not(HasSubstr("cairn: ")));
    }
  }
}

// A part of a picture or a table would look like all of it.
TEST_F(PlainOutput, WhatCannotBeWrittenWholeGoesAgainUnlessItWasThere) {
  const auto cut_off = [&](const std::string& file) {
    return run_program(
        {"/bin/sh", "-c",
         cat("trap '' XFSZ; ulimit -f 1; exec '", CAIRN_TOOL, "' report \"$0\" -o \"$1\""),
         directory_.string(), (directory_ / file).string()});
  };
  write_bytes(directory_ / "old.html", "old");
  for (const auto* file : {"new.html", "old.html"}) {
    const auto ran = cut_off(file);
    EXPECT_EQ(ran.status, 2) << file;
    EXPECT_THAT(ran.err, test::Says("File too large")) << file;
  }
  EXPECT_FALSE(fs::exists(directory_ / "new.html"));
  EXPECT_TRUE(fs::exists(directory_ / "old.html"));
}

}  // namespace
}  // namespace cairn::test
