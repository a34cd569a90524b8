#include "session/schedule/tool_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace cairn {
namespace {

using testing::Optional;

std::optional<std::string> output_of(ToolRun&& run) {
  while (!run.poll()) run.wait(60);
  return run.output();
}

TEST(ToolRun, TellsWhatAProgramPrints) {
  EXPECT_THAT(output_of(ToolRun({"echo", "one", "two"})), Optional(std::string("one two\n")));
  EXPECT_THAT(output_of(ToolRun({"true"})), Optional(std::string()));
}

TEST(ToolRun, AProgramThatFailsTellsNothing) {
  EXPECT_EQ(output_of(ToolRun({"sh", "-c", "echo text; exit 3"})), std::nullopt);
  EXPECT_EQ(output_of(ToolRun({"sh", "-c", "echo text; kill -9 $$"})), std::nullopt);
  EXPECT_EQ(output_of(ToolRun({"cairn-has-no-such-tool"})), std::nullopt);
}

TEST(ToolRun, LongOutputIsCut) {
  const auto text = output_of(ToolRun({"sh", "-c", "head -c 200000 /dev/zero; exit 0"}));
  ASSERT_TRUE(text);
  EXPECT_EQ(text->size(), 64U * 1024);
}

TEST(ToolRun, TheEnvironmentIsOursButForWhatIsGiven) {
  setenv("CAIRN_TEST_KEPT", "kept", 1);
  setenv("CAIRN_TEST_CHANGED", "old", 1);
  EXPECT_THAT(output_of(ToolRun({"sh", "-c", "echo $CAIRN_TEST_KEPT $CAIRN_TEST_CHANGED"},
                                {"CAIRN_TEST_CHANGED=new"})),
              Optional(std::string("kept new\n")));
}

TEST(ToolRun, SignalsAreAsAtTheStartOfAProgram) {
  // The signal is ignored and blocked here: the program must not inherit either.
  const auto before = ::signal(SIGUSR1, SIG_IGN);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  EXPECT_EQ(output_of(ToolRun({"sh", "-c", "kill -USR1 $$; echo alive"})), std::nullopt);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  ::signal(SIGUSR1, before);
}

TEST(ToolRun, OneThatHangsIsEndedWithItsChildren) {
  ToolRun run({"sh", "-c", "sleep 1000 & echo begun; wait"});
  run.wait(60);  // for its first word
  EXPECT_FALSE(run.poll());
  run.kill();
  EXPECT_TRUE(run.poll());
  EXPECT_EQ(run.output(), std::nullopt);
}

TEST(ToolRun, OneThatWritesWithoutEndHoldsNobody) {
  ToolRun run({"cat", "/dev/zero"});
  for (int i = 0; i < 100; ++i) {
    run.wait(60);
    ASSERT_FALSE(run.poll());
  }
  run.kill();
  EXPECT_TRUE(run.poll());
}

TEST(ToolRun, LaterOnesTakeAwayWhatWasKilled) {
  for (int i = 0; i < 5; ++i) ToolRun({"sleep", "1000"}).kill();
  // Each tool has ended by itself; nobody waited for it.
  for (int i = 0; i < 10'000 && tools_to_reap() > 0; ++i) output_of(ToolRun({"true"}));
  EXPECT_EQ(tools_to_reap(), 0);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ToolRun, WhereChildrenAreIgnoredTheOutputIsEnough) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  EXPECT_THAT(output_of(ToolRun({"echo", "text"})), Optional(std::string("text\n")));
  ::signal(SIGCHLD, before);
}

}  // namespace
}  // namespace cairn
