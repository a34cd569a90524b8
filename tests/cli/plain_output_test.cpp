// Texts of a checkpoint that would do something to the terminal on which they are printed.
#include <gmock/gmock.h>

#include <regex>

#include "cairn/attributes.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cli/tool.hpp"

namespace cairn::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PlainOutput, ControlsAreSpelledOut) {
  const ScratchDirectory scratch;
  const auto prefix = (scratch.path() / "ckpt-1").string();
  {
    double value = 1;
    std::string word = "\x1b]52;c;cm0gLXJm\x07";
    State state;
    state.add("x", value);
    state.add("word", word);
    Description said;
    said.units =
        "m\x1b[2J\x1b]0;title\x07\r\x7f\xc2\x9b"
        "5n \x1b[31mred\x1b[0m";
    state.describe("x", said);
    CheckpointManager(serial_group(), scratch.path()).save(1, state);
  }
  for (const auto& words : {std::vector<std::string>{"show", prefix},
                            {"show", prefix, "--values"},
                            {"cat", prefix, "word"},
                            {"ls", scratch.path().string()}}) {
    auto out = run_tool_on_terminal(words, 120);
    if (words.size() == 2 && words[0] == "show") {
      EXPECT_THAT(out, HasSubstr(R"(m\x1b[2J\x1b]0;title\x07\x0d\x7f\xc2\x9b5n )"));
      EXPECT_THAT(out, HasSubstr("\x1b[31mred\x1b[0m"));  // harmless, and what pictures are made of
    }
    out = std::regex_replace(out, std::regex("\x1b\\[[0-9;]*m"), "");
    for (const char* control : {"\x1b", "\x07", "\x7f", "\xc2\x9b"}) {
      EXPECT_THAT(out, Not(HasSubstr(control))) << words[0];
    }
  }
  // A file gets what was written.
  EXPECT_THAT(run_tool({"show", prefix}).out, HasSubstr("m\x1b[2J\x1b]0;title\x07\r\x7f"));
}

}  // namespace
}  // namespace cairn::test
