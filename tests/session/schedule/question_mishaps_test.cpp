// should_save and should_stop in unusual cases: questions that are left out, saves that fail,
// restores, a clock that throws.
#include <atomic>

#include "session/schedule/question_rounds_kit.hpp"
#include "session/schedule/run_history.hpp"

namespace cairn {
namespace {

class RoundMishaps : public RoundQuestions {};

// should_stop is called in every step and should_save in every other one: the clock's answer comes
// in a step that does not ask should_save.
TEST_P(RoundMishaps, AYesOfTheClockWaitsUntilItIsHeard) {
  options_.when.interval = every_seconds(8);
  workers([&](Worker& worker) {
    Steps saved;
    for (std::int64_t step = 1; step <= 15; ++step) {
      if (worker.me() == 0) *worker.time += 3;
      EXPECT_FALSE(worker.manager().should_stop());
      if (step % 2 != 0 || !worker.manager().should_save(step)) continue;
      saved.push_back(step);
      worker.rank->save(step);
    }
    EXPECT_EQ(saved, (Steps{6, 10, 14}));
  });
  workers([&](Worker& worker) {  // nor is it said twice, or after a save that nobody asked for
    for (std::int64_t step = 1; step <= 5; ++step) {
      if (worker.me() == 0) *worker.time += 3;
      EXPECT_FALSE(worker.manager().should_stop());
    }
    worker.rank->save(5);
    EXPECT_FALSE(worker.manager().should_save(6));
    EXPECT_FALSE(worker.manager().should_save(7));
  });
}

TEST_P(RoundMishaps, WhoGoesOnAfterAStopStillSavesByTheClock) {
  options_.when.interval = every_seconds(10);
  workers([&](Worker& worker) {
    worker.stop->request();
    const auto saved = saved_steps(worker, 1, 7, [&](auto) { *worker.time += 3; });
    // The stop is known at step 2 (6 s); a save is due from 16 s on, so at step 6 (18 s), and the
    // answer comes at step 7.
    EXPECT_EQ(saved, (Steps{2, 7}));
    EXPECT_TRUE(worker.manager().should_stop());
  });
}

TEST_P(RoundMishaps, AnEarlierFailureDoesNotCostTheLastSave) {
  for (const std::int64_t last : {2, 3}) {
    const bool asynchronous = last == 2;
    files_->inject({Code::no_space, "write", "part-00000", 0, 1});
    workers([&](Worker& worker) {
      auto& manager = worker.manager();
      const auto failing = manager.save_async(9, worker.rank->state);
      worker.stop->request();
      manager.should_stop();
      ASSERT_TRUE(manager.should_stop());
      ASSERT_TRUE(manager.should_save(last));
      if (asynchronous) manager.save_async(last, worker.rank->state);
      if (!asynchronous) worker.rank->save(last);
      EXPECT_EQ(failing.stage(), SaveStage::failed);
      EXPECT_TRUE(failing.error());
      EXPECT_NO_THROW(manager.wait());
      EXPECT_EQ(worker.rank->steps().back(), last);
    });
  }
}

TEST_P(RoundMishaps, ALastSaveThatFailsPendingIsDueAgain) {
  workers([&](Worker& worker) {
    auto& manager = worker.manager();
    worker.stop->request();
    manager.should_stop();
    ASSERT_TRUE(manager.should_stop());
    ASSERT_TRUE(manager.should_save(1));
    if (worker.me() == 0) files_->inject({Code::no_space, "write", "part-00000", 0, 1});
    worker.group->barrier();
    const auto failing = manager.save_async(1, worker.rank->state);
    std::int64_t step = 2;
    while (failing.stage() != SaveStage::failed && step < 1'000'000) manager.should_save(step++);
    EXPECT_TRUE(manager.should_save(1)) << "it is not saved";
    EXPECT_TRUE(manager.should_save(step));
    manager.save_async(step, worker.rank->state);
    EXPECT_NO_THROW(manager.wait());
    EXPECT_FALSE(manager.should_save(step));
    EXPECT_FALSE(manager.should_save(step + 1));
    EXPECT_EQ(worker.rank->steps(), Steps{step});
    // The error of the last save is thrown: no later save can make up for it.
    if (worker.me() == 0) files_->inject({Code::no_space, "write", "part-00000", 0, 1});
    worker.group->barrier();
    manager.save_async(step + 2, worker.rank->state);
    EXPECT_THROW(manager.wait(), Error);
  });
}

TEST_P(RoundMishaps, AfterARestoreStepsCountFromThere) {
  options_.when.interval = every_steps(100);
  workers([&](Worker& worker) {
    auto& manager = worker.manager();
    worker.rank->save(50);
    ASSERT_TRUE(manager.should_save(100));
    worker.rank->save(100);
    EXPECT_FALSE(manager.should_save(100));
    manager.restore(50, worker.rank->state);
    EXPECT_TRUE(manager.should_save(100)) << "it is computed anew";
    worker.rank->save(190);
  });
  workers([&](Worker& worker) {
    EXPECT_EQ(worker.rank->latest(), 190);
    EXPECT_TRUE(worker.manager().should_save(220)) << "200 was passed";
    EXPECT_FALSE(worker.manager().should_save(230));
  });
}

TEST_P(RoundMishaps, AClockThatThrowsLeavesNobodyBehind) {
  std::atomic<int> told = 0;
  options_.when.interval = every_seconds(10);
  set_log_sink([&](LogLevel, std::string_view text) {
    told += text.find("no time") != std::string_view::npos;
  });
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    const auto broken = std::make_shared<bool>(false);
    options.when.stop =
        std::make_shared<StopRequest>(StopOptions{.signals = {}, .time_limit = false});
    options.when.clock = [broken] { return *broken ? throw std::runtime_error("no time") : 1e9; };
    Rank rank(group, options);
    *broken = true;
    for (std::int64_t step = 1; step <= 5; ++step) {
      EXPECT_FALSE(rank.manager.should_save(step));
      EXPECT_FALSE(rank.manager.should_stop());
    }
    rank.save(5);
    // Rank 0's other reasons still count.
    if (group->rank() == 0) options.when.stop->request();
    EXPECT_FALSE(rank.manager.should_save(6));
    EXPECT_TRUE(rank.manager.should_save(7));
    EXPECT_TRUE(rank.manager.should_stop());
  });
  EXPECT_EQ(told, 1);
  set_log_sink({});
}

// Rank 0 either looks at all, or votes like any other rank.
TEST_P(RoundMishaps, AClockThatThrowsAfterHalfALookTellsNothing) {
  options_.when.interval = every_seconds(10);
  set_log_sink({});
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    double time = 1e9;
    std::int64_t left = 1000;  // calls until it throws
    options.when.stop =
        std::make_shared<StopRequest>(StopOptions{.signals = {}, .time_limit = false});
    options.when.clock = [&] { return left-- > 0 ? time : throw std::runtime_error("no time"); };
    Rank rank(group, options);
    rank.save(1);
    rank.manager.should_save(2);
    left = 1000;
    rank.manager.should_save(3);
    std::int64_t calls = 1000 - left;  // most on rank 0
    group->all_reduce({&calls, 1}, Group::Op::max);
    time += 100;
    for (std::int64_t some = 0; some < calls - 1; ++some) {  // the last one may fail
      for (int round = 0; round < 2; ++round) {
        left = some;
        EXPECT_FALSE(rank.manager.should_save(4)) << some << " of " << calls;
      }
    }
    left = 1000;
    EXPECT_FALSE(rank.manager.should_save(4));
    EXPECT_TRUE(rank.manager.should_save(4));
  });
}

// The new owner of the directory keeps its own history.
TEST_P(RoundMishaps, AManagerThatLostItsDirectoryDoesNotWriteHowItsRunEnded) {
  options_.when.interval = optimal(Mtbf::learnt(1000));
  const auto end_of_run = [&](bool lost) {
    workers([&](Worker& worker) {
      worker.group->barrier();
      if (lost && worker.me() == 0) files_->remove("/run/.cairn/owner");
    });
    const auto text = io::read_file(*files_, "/run/.cairn/runs.ckpt", 1 << 20);
    return RunHistory::parse(text).value().runs.back().end;
  };
  EXPECT_EQ(end_of_run(true), RunHistory::JobRun::End::open);
  EXPECT_EQ(end_of_run(false), RunHistory::JobRun::End::well);
}

INSTANTIATE_TEST_SUITE_P(Ranks, RoundMishaps, testing::Values(1, 2, 4));

}  // namespace
}  // namespace cairn
