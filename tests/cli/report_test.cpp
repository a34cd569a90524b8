// cairn report: what the page tells of a run, and that it is valid.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>

#include "base/host_name.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The first fault of the page as XML: tags that do not match, attributes without quotes. Empty if
// there is none.
std::string fault_of(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    if (page.compare(at, 2, "<!") == 0) continue;
    const auto end = page.find('>', at);
    if (end == std::string::npos) return "a tag has no end";
    const auto tag = page.substr(at + 1, end - at - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "quotes in <" + tag;
    std::string name;
    for (const char c : tag) {
      if (std::isspace(static_cast<unsigned char>(c)) || (c == '/' && !name.empty())) break;
      name += c;
    }
    if (name.starts_with('/')) {
      if (open.empty() || "/" + open.back() != name) return "</" + name + " closes nothing";
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

class Report : public testing::Test {
 protected:
  Report() {
    set_log_sink({});
    state_.add("step", step_);
    state_.add("<u&\"v\">", patches({slice(field_.data(), {4, 6}, {0, 0}, {2, 6}),
                                     slice(field_.data() + 12, {4, 6}, {2, 0}, {2, 6})}));
    options_.keep.last = 3;
  }
  void save(CheckpointManager& manager, std::int64_t step) {
    step_ = step;
    manager.save(step, state_);
  }
  std::string page(std::vector<std::string> more = {}) {
    std::vector<std::string> words{"report", scratch_.path().string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = run_tool(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(fault_of(ran.out), "");
    for (const auto* other : {"src=", "href=", "url(", "@import", "<script"}) {
      EXPECT_THAT(ran.out, Not(HasSubstr(other)));  // the page needs nothing else
    }
    return ran.out;
  }

  std::int64_t step_ = 0;
  std::array<double, 24> field_{};
  State state_;
  ManagerOptions options_;
  ScratchDirectory scratch_;
};

TEST_F(Report, TellsOfSavesThatAreGoneAndOfLinesLeftBehind) {
  {
    CheckpointManager manager(serial_group(), scratch_.path(), options_);
    for (const int step : {10, 20, 30, 40, 50}) save(manager, step);
  }
  CheckpointManager manager(serial_group(), scratch_.path(), options_);
  manager.restore(30, state_);
  for (const int step : {40, 45}) save(manager, step);
  const auto text = page();
  // Steps 10 and 20 are gone; the metadata of step 40 and of 50 later checkpoints still tell of
  // them.
  for (const auto* says :
       {"<title>step 10 (gone), save 1</title>", "<title>step 20 (gone), save 2</title>",
        "<title>step 45, save ", "step 50 (gone), save 5</title>", "<dd class=\"good\">45</dd>",
        "stays: the newest", "stays: one of the last 3"}) {
    EXPECT_THAT(text, HasSubstr(says));
  }
  EXPECT_THAT(text, HasSubstr("&lt;u&amp;&quot;v&quot;&gt;"));
  EXPECT_THAT(text, Not(HasSubstr("<u&")));
  EXPECT_THAT(text, test::Says("Nothing is known to be damaged or lost."));
  EXPECT_THAT(page({"--key", "nothing"}), test::Says("has no tensor of this key"));
}

TEST_F(Report, NamesDamageAndWhatWasLost) {
  {
    CheckpointManager manager(serial_group(), scratch_.path(), options_);
    for (const int step : {1, 2, 3}) save(manager, step);
  }
  const auto index = scratch_.path() / "ckpt-2.index";
  auto bytes = read_bytes(index);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(index, bytes);
  std::filesystem::remove(scratch_.path() / "ckpt-1.index");
  const auto text = page();
  EXPECT_THAT(text, AllOf(HasSubstr("step 2: "), test::Says("step 1: the checkpoint "),
                          test::Says("<dd class=\"bad\">2</dd>")));
}

TEST_F(Report, AsksWhichOfSeveralNames) {
  for (const auto* name : {"a", "b"}) {
    options_.name = name;
    CheckpointManager manager(serial_group(), scratch_.path(), options_);
    save(manager, 1);
  }
  const auto ran = run_tool({"report", scratch_.path().string()});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("a, b"), HasSubstr("--name")));
  EXPECT_THAT(page({"--name", "b"}), HasSubstr("<h1>b in "));
}

TEST_F(Report, OfManySavesShowsTheNewestAndLeadsToAll) {
  options_.keep.last = 0;
  {
    CheckpointManager manager(serial_group(), scratch_.path(), options_);
    for (int step = 1; step <= 205; ++step) save(manager, step);
  }
  const auto index = scratch_.path() / "ckpt-3.index";
  auto bytes = read_bytes(index);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(index, bytes);
  const auto row = [](int step) { return "<tr><td class=\"n\">" + std::to_string(step) + "</td>"; };
  ScratchDirectory out;
  const auto recent = out.path() / "run.html", all = out.path() / "run.all.html";
  const auto ran = run_tool({"report", scratch_.path().string(), "-o", recent.string()});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto text = read_bytes(recent);
  EXPECT_THAT(text, AllOf(test::Says("The newest 200 of 205 saves"), HasSubstr(row(205)),
                          HasSubstr(row(6)), Not(HasSubstr(row(5))), HasSubstr("step 3: ")));
  EXPECT_LT(text.find(row(205)), text.find(row(204)));  // the newest first
  EXPECT_THAT(text, HasSubstr("<a href=\"run.all.html\">"));
  EXPECT_EQ(fault_of(text), "");
  EXPECT_THAT(read_bytes(all),
              AllOf(HasSubstr(row(205)), HasSubstr(row(1)), Not(HasSubstr("href="))));
  EXPECT_EQ(fault_of(read_bytes(all)), "");
}

TEST_F(Report, NamesTheWholePathAndTheHost) {
  {
    CheckpointManager manager(serial_group(), scratch_.path(), options_);
    save(manager, 1);
  }
  const auto relative = std::filesystem::relative(scratch_.path());
  const auto ran = run_tool({"report", relative.string()});
  EXPECT_THAT(ran.out, HasSubstr("<h1>ckpt in " + scratch_.path().string() + "</h1>"));
  EXPECT_THAT(ran.out, HasSubstr(" on " + host_name() + "."));
}

TEST_F(Report, NamesTheProgram) {
  {
    CheckpointManager manager(serial_group(), scratch_.path(), options_);
    save(manager, 1);
  }
  EXPECT_THAT(page(), Not(test::Says("<dt>saved by</dt>")));
  options_.store.application = {"<ocean>", "2.1", "f3a9"};
  CheckpointManager manager(serial_group(), scratch_.path(), options_);
  save(manager, 2);
  EXPECT_THAT(
      page(),
      AllOf(test::Says("<dt>saved by</dt><dd class=\"\">&lt;ocean&gt; 2.1, commit f3a9</dd>"),
            test::Says("<td class=\"\">&lt;ocean&gt; 2.1, commit f3a9</td>"),
            test::Says("<td class=\"\">-</td>")));
  const auto told = run_tool({"report", scratch_.path().string(), "--json"}).json()["saves"];
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[0]["checkpoint"]["application"].is_null());
  EXPECT_EQ(told[1]["checkpoint"]["application"]["version"], "2.1");
}

TEST_F(Report, OfANameThatHasNoneIsAnError) {
  {
    CheckpointManager manager(serial_group(), scratch_.path(), options_);
    save(manager, 1);
  }
  const auto ran = run_tool({"report", scratch_.path().string(), "--name", "zz"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, test::Says("there are those of ckpt"));
}

TEST_F(Report, OfADirectoryWithoutCheckpointsIsAnError) {
  const auto ran = run_tool({"report", scratch_.path().string()});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, test::Says("there are no numbered checkpoints in"));
  EXPECT_THAT(ran.err, test::Says("which saves failed"));
}

}  // namespace
}  // namespace cairn::test
