// Processes that are in different calls get an error, instead of waiting for each other.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/group.hpp"
#include "cairn/log.hpp"
#include "group/call_group.hpp"
#include "mpi/mpi_kit.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Calls : public ::testing::Test {
 protected:
  const std::shared_ptr<Group> group = mpi(MPI_COMM_WORLD);
  const test::Directory directory{*group};
  const int last = group->size() - 1;
  const bool is_last = group->rank() == last;
  std::shared_ptr<StopRequest> stop =
      std::make_shared<StopRequest>(StopOptions{.signals = {}, .time_limit = false});
  ManagerOptions options{.when = {.stop = stop}};
  CheckpointManager manager{group, directory.path(), options};
  double value = group->rank();
  State state;

  Calls() { state.add("x", slice(&value, {group->size()}, {group->rank()}, {1})); }

  // The last rank calls `other`, the other ranks save; then all go on together.
  void meet(const std::string& other, const std::function<void()>& call) {
    SCOPED_TRACE(other);
    const auto step = ++saved_;
    test::expect_error([&] { is_last ? call() : static_cast<void>(manager.save(step, state)); },
                       Code::disagreement,
                       AllOf(test::Says("CheckpointManager::save of 'ckpt' in "),
                             HasSubstr(cat("rank ", last, ": ", other))));
    manager.save(step, state);
    value = -1;
    EXPECT_EQ(manager.restore_latest(state)->step, step);
    EXPECT_EQ(value, group->rank());
  }

 private:
  std::int64_t saved_ = 0;
};

TEST_F(Calls, OneRankRestoresOrLooksWhileOthersSave) {
  meet("CheckpointManager::restore_latest", [&] { manager.restore_latest(state); });
  meet("CheckpointManager::steps", [&] { manager.steps(); });
  meet("CheckpointManager::open", [&] { manager.open(1); });
  meet("CheckpointManager::save_async", [&] { manager.save_async(100, state); });
  meet("run_and_agree", [&] { run_and_agree(group, [] {}); });
  meet("CheckpointManager::CheckpointManager",
       [&] { CheckpointManager(group, directory.path(), {.read_only = true}); });
}

TEST_F(Calls, WhileASaveIsPending) {
  const auto start = [&](std::int64_t step) {
    manager.save_async(step, state).wait_written();
    group->barrier();
  };
  const auto different = [&](auto mine, auto others) {
    test::expect_error([&] { is_last ? mine() : others(); }, Code::disagreement,
                       test::Says("ranks are in different calls: "));
  };
  start(10);
  different([&] { manager.poll(); }, [&] { manager.save(11, state); });
  different([&] { manager.steps(); }, [&] { manager.wait(); });
  manager.wait();
  start(20);
  different([&] { manager.restore_latest(state); }, [&] { manager.save_async(21, state); });
  EXPECT_EQ(manager.steps().back().step, 20);
}

// The question of the last rank goes on while it does other things: it gets the error when it asks
// again.
TEST_F(Calls, OneRankAsksWhetherToStopWhileOthersSave) {
  if (is_last) {
    EXPECT_FALSE(manager.should_stop());
  }
  test::expect_error(
      [&] { is_last ? static_cast<void>(manager.should_stop()) : void(manager.save(1, state)); },
      Code::disagreement, HasSubstr(cat("rank ", last, ": should_save or should_stop; ")));
  for (int step = 1; step < 4; ++step) {
    EXPECT_FALSE(manager.should_stop());
    manager.save(step, state);
  }
  EXPECT_EQ(manager.restore_latest(state)->step, 3);
}

// The last rank goes on when rank 0 has logged that it alone is missing. Rank 0 logs this again and
// again, and at first may not have heard of the other ranks either.
TEST_F(Calls, WhoIsMissingIsKnown) {
  const auto calls = CallGroup::of(group);
  const auto until_told = [&](const std::string& stage, const std::function<void()>& call) {
    const auto told = directory.path() / cat("told", stage.size());
    // The watch may still write a message when this returns.
    set_log_sink([told, said = cat(" for rank ", last, stage),
                  starts = cat("rank 0 of ", group->size(), " has waited "),
                  is_over = std::make_shared<std::atomic<bool>>(group->rank() != 0)](
                     LogLevel, std::string_view message) {
      if (!message.starts_with(starts) || message.find(said) == message.npos) return;
      if (!is_over->exchange(true)) std::ofstream(told) << "told";
    });
    set_wait_limits({.log_seconds = 0.05, .end_seconds = 0});
    while (is_last && !std::filesystem::exists(told)) std::this_thread::yield();
    call();
    set_wait_limits({});
    EXPECT_TRUE(group->awaited().empty());
    // The last rank was in the call. After the barrier rank 0 may remove the directory.
    EXPECT_TRUE(std::filesystem::exists(told));
    group->barrier();
  };
  until_told(" to make the same call", [&] { manager.save(1, state); });
  // As in a save that all ranks but one have written.
  until_told(", which is in this call too, at its part of it",
             [&] { collective_call(*calls, "a save", [&] { all_of(*calls, true); }); });
  set_log_sink([](LogLevel, std::string_view) {});
}

}  // namespace
}  // namespace cairn
