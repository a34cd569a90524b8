// What the tool reports of saves that failed, and of a newest checkpoint that is too old.
#include <gmock/gmock.h>

#include <cstdlib>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FailuresOfSaves : public testing::Test {
 protected:
  FailuresOfSaves() {
    set_log_sink([this](LogLevel, std::string_view line) { said_.emplace_back(line); });
    state_.add("a", value_);
  }
  ~FailuresOfSaves() override { set_log_sink({}); }

  // Saves step 2, and fails to save it once more.
  void fail_once() {
    CheckpointManager manager(serial_group(), scratch_.path(), {});
    manager.save(2, state_);
    EXPECT_THROW(manager.save(2, state_), Error);
  }
  Ran run(std::vector<std::string> words) {
    words.insert(words.begin() + 1, scratch_.path().string());
    return run_tool(words);
  }

  double value_ = 1;
  State state_;
  std::vector<std::string> said_;
  ScratchDirectory scratch_;
};

TEST_F(FailuresOfSaves, AreToldByListStatisticsAndReport) {
  {
    CheckpointManager manager(serial_group(), scratch_.path(), {});
    manager.save(0, state_);
  }
  for (const auto* verb : {"ls", "stats"}) {
    EXPECT_THAT(run({verb}).out, Not(HasSubstr("failed")));
    EXPECT_EQ(run({verb, "--json"}).json()["failures"].size(), 0U);
  }
  EXPECT_THAT(run({"report"}).out, Not(HasSubstr("Saves: ")));
  fail_once();
  for (const auto* verb : {"ls", "stats"}) {
    EXPECT_THAT(run({verb}).out, test::Says("ckpt: the last save failed: step 2 at "));
    const auto failures = run({verb, "--json"}).json()["failures"];
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0]["name"], "ckpt");
    EXPECT_EQ(failures[0]["failures"], 1);
    EXPECT_EQ(failures[0]["step"], 2);
    EXPECT_EQ(failures[0]["code"], "already_exists");
    EXPECT_THAT(failures[0]["error"].get<std::string>(), HasSubstr("step 2 exists"));
  }
  EXPECT_THAT(run({"report"}).out, test::Says("Saves: the last save failed: step 2 at "));
  EXPECT_THAT(run({"ls", "--name", "other"}).out, Not(HasSubstr("failed")));
}

TEST_F(FailuresOfSaves, ANewestThatIsTooOldIsAnExitStatus) {
  EXPECT_EQ(run({"ls", "--max-age", "9999d"}).status, 1);  // there is none
  {
    CheckpointManager manager(serial_group(), scratch_.path(), {});
    manager.save(1, state_);
  }
  EXPECT_EQ(run({"ls", "--max-age", "1h"}).status, 0);
  EXPECT_EQ(run({"ls", "--max-age", "0s"}).status, 1);
  EXPECT_EQ(run({"ls", "--max-age", "1h", "--name", "other"}).status, 1);
  EXPECT_EQ(run({"ls", "--max-age", "1h", "--json"}).status, 0);
  for (const auto* age : {"2", "h", "2w", "-1h", "nan h", ""}) {
    const auto ran = run({"ls", "--max-age", age});
    EXPECT_EQ(ran.status, 2) << age;
    EXPECT_THAT(ran.err, test::Says("is no age")) << age;
  }
  write_bytes(scratch_.path() / "ckpt-1.index", "damaged");
  EXPECT_EQ(run({"ls", "--max-age", "1h"}).status, 1);
}

}  // namespace
}  // namespace cairn::test
