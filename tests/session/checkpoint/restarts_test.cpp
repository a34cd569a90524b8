// Runs that restore a step and get no further: after several such runs an older step is taken.
#include <gmock/gmock.h>

#include <stdexcept>

#include "base/text.hpp"
#include "cairn/stop.hpp"
#include "session/schedule/run_history.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::RunRank;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Restarts : public test::MemoryRun {
 protected:
  struct Dies {};

  void saves(std::initializer_list<int> steps) {
    job([&](RunRank& rank) {
      for (const int step : steps) rank.save(step);
    });
  }
  // A run that restores and dies. Returns the step, and the errors of those that it passed over.
  std::int64_t dies(std::vector<std::string>* skipped = nullptr) {
    std::int64_t step = -1;
    const auto run = [&] {
      job([&](RunRank& rank) {
        const auto report = rank.manager.restore_latest(rank.state);
        if (rank.group->rank() == 0) {
          step = report ? report->step : 0;
          if (report && skipped) *skipped = report->skipped;
        }
        throw Dies();
      });
    };
    EXPECT_THROW(run(), Dies);
    return step;
  }
  std::vector<std::int64_t> die(int times) {
    std::vector<std::int64_t> steps;
    for (int i = 0; i < times; ++i) steps.push_back(dies());
    return steps;
  }
  RunHistory history() {
    return RunHistory::parse(io::read_file(*files_, "/run/.cairn/runs.ckpt", 1 << 20)).value();
  }
};

TEST_P(Restarts, AfterThreeRunsInVainTheNextOlderStepIsTaken) {
  saves({10, 20, 30});
  std::string told;
  set_log_sink([&](LogLevel, std::string_view text) { told += cat(text, "\n"); });
  EXPECT_THAT(die(3), ElementsAre(30, 30, 30));
  EXPECT_THAT(told, testing::Not(test::Says("passed over")));
  std::vector<std::string> skipped;
  EXPECT_EQ(dies(&skipped), 20);
  EXPECT_THAT(skipped,
              ElementsAre("step 30: 3 runs have restored it and ended with no newer checkpoint"));
  EXPECT_THAT(told, test::Says("passed over: step 30: 3 runs"));
  set_log_sink({});
  EXPECT_THAT(die(2), ElementsAre(20, 20));
  EXPECT_EQ(dies(&skipped), 10);
  EXPECT_THAT(skipped, SizeIs(2));
  // There is no older step left, and the newest is better than none.
  EXPECT_THAT(die(3), ElementsAre(10, 10, 30));
}

TEST_P(Restarts, ANewerCommitBeginsTheCountAnew) {
  saves({10, 20});
  EXPECT_THAT(die(2), ElementsAre(20, 20));
  for (int i = 0; i < 2; ++i) {
    const auto run = [&] {
      job([&](RunRank& rank) {
        EXPECT_EQ(rank.latest(), 20 + i);
        rank.save(21 + i);
        throw Dies();
      });
    };
    EXPECT_THROW(run(), Dies);
  }
  EXPECT_FALSE(history().restored);
  EXPECT_TRUE(history().in_vain.empty());
  EXPECT_THAT(die(3), ElementsAre(22, 22, 22));
}

// The first commit of a run notes it in the history, and no later one writes anything.
TEST_P(Restarts, OneCommitNotesIt) {
  saves({10});
  job([&](RunRank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    if (rank.group->rank() == 0) EXPECT_TRUE(history().restored);
    rank.save(11);
    if (rank.group->rank() == 0) {
      EXPECT_FALSE(history().restored);
      files_->remove("/run/.cairn/runs.ckpt");
    }
    rank.save(12);
    rank.save(13);
  });
  EXPECT_FALSE(files_->status("/run/.cairn/runs.ckpt"));
}

// The rolled-forward save of a job that died counts as a newer commit, too.
TEST_P(Restarts, ACommitThatNobodyNotedIsSeen) {
  saves({10});
  const auto run = [&] {
    job([&](RunRank& rank) {
      EXPECT_EQ(rank.latest(), 10);
      std::string before;
      if (rank.group->rank() == 0) before = history().print();
      rank.save(20);
      // As if the note had been lost: the earlier history is written back.
      if (rank.group->rank() == 0) {
        io::replace_file(*files_, "/run/.cairn/runs.ckpt", before, "/run/.cairn/next");
      }
      throw Dies();
    });
  };
  EXPECT_THROW(run(), Dies);
  EXPECT_EQ(dies(), 20);
  EXPECT_TRUE(history().in_vain.empty());
}

TEST_P(Restarts, RunsThatEndInGoodOrderDoNotCount) {
  saves({10, 20});
  for (int i = 0; i < 5; ++i) job([&](RunRank& rank) { EXPECT_EQ(rank.latest(), 20); });
  EXPECT_THAT(die(2), ElementsAre(20, 20));
  job([&](RunRank& rank) { EXPECT_EQ(rank.latest(), 20); });  // and what was counted stays
  EXPECT_THAT(die(2), ElementsAre(20, 10));
}

TEST_P(Restarts, RunsThatWereToldToStopDoNotCount) {
  saves({10, 20});
  for (int i = 0; i < 5; ++i) {
    const auto run = [&] {
      run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
        auto options = options_;
        options.when.stop = std::make_shared<StopRequest>(StopOptions{.signals = {}});
        RunRank rank(group, options);
        EXPECT_EQ(rank.latest(), 20);
        options.when.stop->request();
        while (!rank.manager.should_stop()) {
        }
        throw Dies();  // before it could save
      });
    };
    EXPECT_THROW(run(), Dies);
  }
  EXPECT_EQ(dies(), 20);
}

TEST_P(Restarts, ARunCountsOnceHoweverOftenItRestores) {
  saves({10, 20});
  job([&](RunRank& rank) {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(rank.latest(), 20);
  });
  const auto run = [&] {
    job([&](RunRank& rank) {
      for (int i = 0; i < 10; ++i) EXPECT_EQ(rank.latest(), 20);
      throw Dies();
    });
  };
  EXPECT_THROW(run(), Dies);
  EXPECT_THAT(die(3), ElementsAre(20, 20, 10));
}

TEST_P(Restarts, SavesGoOnFromTheOlderStep) {
  saves({10, 20});
  die(3);
  job([&](RunRank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    rank.save(15);
    const auto steps = rank.manager.steps();
    ASSERT_EQ(steps.size(), 3U);
    EXPECT_EQ(steps[1].step, 20);
    EXPECT_TRUE(steps[1].superseded);
    EXPECT_TRUE(steps[2].newest);
    rank.save(20);  // as after restore(10)
    EXPECT_EQ(rank.latest(), 20);
  });
  EXPECT_EQ(dies(), 20) << "another save of it";
}

TEST_P(Restarts, TriesAreAnOption) {
  saves({10, 20});
  options_.restore.tries = 0;
  EXPECT_THAT(die(5), testing::Each(20));
  EXPECT_FALSE(files_->status("/run/.cairn/runs.ckpt"));
  options_.restore.tries = 1;
  EXPECT_THAT(die(2), ElementsAre(20, 10));
  options_.restore.tries = -1;
  test::expect_error(Code::invalid_argument, test::Says("RestartOptions::tries is -1"),
                     [&] { job([](RunRank&) {}); });
}

TEST_P(Restarts, WithoutFallBackItIsAnError) {
  saves({10, 20});
  die(3);
  options_.restore.fall_back = false;
  job([&](RunRank& rank) {
    test::expect_error(Code::data_loss,
                       testing::AllOf(HasSubstr("3 runs"), test::Says("cairn mark /run")),
                       [&] { rank.manager.restore_latest(rank.state); });
    rank.manager.restore(20, rank.state);  // who asks for it gets it
    EXPECT_EQ(rank.seen(), 20);
    rank.manager.mark(20, StepMark::bad);
    EXPECT_EQ(rank.latest(), 10);
    rank.manager.mark(20, StepMark::good);
    EXPECT_EQ(rank.latest(), 20);
  });
}

TEST_P(Restarts, ReadersNeitherCountNorPassOver) {
  saves({10, 20});
  options_.restore.tries = 1;
  auto reader = options_;
  reader.read_only = true;
  std::swap(options_, reader);
  EXPECT_THAT(die(3), testing::Each(20));
  std::swap(options_, reader);
  EXPECT_EQ(dies(), 20);
  EXPECT_EQ(dies(), 10);
  std::swap(options_, reader);
  EXPECT_EQ(dies(), 20);
}

TEST_P(Restarts, AStepMarkedBadIsPassedOver) {
  saves({10, 20});
  job([&](RunRank& rank) {
    rank.manager.mark(20, StepMark::bad);
    EXPECT_EQ(rank.manager.steps()[1].passed_over, "somebody has marked it bad");
    EXPECT_EQ(rank.latest(), 10);
    test::expect_error(Code::not_found, test::Says("no step 30"),
                       [&] { rank.manager.mark(30, StepMark::bad); });
  });
  std::vector<std::string> skipped;
  EXPECT_EQ(dies(&skipped), 10);
  EXPECT_THAT(skipped, ElementsAre("step 20: somebody has marked it bad"));
  options_.read_only = true;
  EXPECT_EQ(dies(), 10) << "a reader believes it, too";
  options_.read_only = false;
  job([&](RunRank& rank) { rank.manager.mark(10, StepMark::bad); });
  job([&](RunRank& rank) {
    test::expect_error(Code::data_loss, test::Says("cairn mark"),
                       [&] { rank.manager.restore_latest(rank.state); });
    rank.manager.mark(20, StepMark::good);
    EXPECT_EQ(rank.manager.steps()[1].passed_over, "");
    EXPECT_EQ(rank.latest(), 20);
  });
}

TEST_P(Restarts, GoodForgetsTheCount) {
  saves({10, 20});
  die(3);
  EXPECT_EQ(dies(), 10);
  job([&](RunRank& rank) { rank.manager.mark(20, StepMark::good); });
  EXPECT_THAT(die(4), ElementsAre(20, 20, 20, 10));
}

// Retention counts steps that are passed over like any other.
TEST_P(Restarts, WhatIsPassedOverCountsAsAnyOther) {
  options_.keep.last = 2;
  saves({10, 20});
  job([&](RunRank& rank) {
    rank.manager.mark(20, StepMark::bad);
    EXPECT_EQ(rank.latest(), 10);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20)) << "it is not removed";
    rank.save(30);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 30)) << "20 was left behind";
  });
}

// ... but the step that a restart takes is kept.
TEST_P(Restarts, RetentionKeepsTheNewestThatIsNotPassedOver) {
  options_.keep.last = 5;
  saves({10, 20, 30});
  die(3);
  EXPECT_EQ(dies(), 20);
  options_.keep.last = 1;
  job([&](RunRank& rank) {
    EXPECT_EQ(rank.latest(), 20);
    const auto decisions = rank.manager.preview_retention();
    ASSERT_EQ(decisions.size(), 3U);
    EXPECT_FALSE(decisions[0].stays);
    EXPECT_TRUE(decisions[1].stays);
    EXPECT_EQ(decisions[1].why, "the newest that is not passed over");
    EXPECT_TRUE(decisions[2].stays);
  });
}

// If the history cannot be written, a warning says so, and the run goes on.
TEST_P(Restarts, AHistoryIsWorthNoFailure) {
  saves({10});
  std::string told;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level >= LogLevel::warning) told += cat(text, "\n");
  });
  job([&](RunRank& rank) {
    if (rank.group->rank() == 0) {
      files_->inject({.code = Code::io, .kind = "", .path_part = "owner.tmp", .times = 1000});
    }
    EXPECT_EQ(rank.latest(), 10);
  });
  EXPECT_THAT(told, test::Says("that a run goes on from a checkpoint is not recorded"));
  set_log_sink({});
}

INSTANTIATE_TEST_SUITE_P(Ranks, Restarts, testing::Values(1, 3));

}  // namespace
}  // namespace cairn
