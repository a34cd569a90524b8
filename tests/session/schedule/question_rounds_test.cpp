// should_save and should_stop: all ranks get the same answer at the same step, with one reduction
// for each step.
#include <cmath>

#include "cairn/optimal_interval.hpp"
#include "session/schedule/question_rounds_kit.hpp"
#include "session/schedule/run_history.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

TEST_P(RoundQuestions, OneRankGetsTheSignalAndAllStopAtTheSameStep) {
  for (int who = 0; who < GetParam(); ++who) {
    workers([&](Worker& worker) {
      std::optional<StopReason> stop;
      std::int64_t step = 0;
      while (step < 20 && !stop) {
        ++step;
        if (step == 7 && worker.me() == who) worker.stop->note_signal(SIGUSR1);
        const bool save = worker.manager().should_save(step);
        stop = worker.manager().should_stop();
        EXPECT_EQ(save, stop.has_value()) << step;
      }
      // What ranks knew at the 7th question is the answer to the 8th.
      ASSERT_TRUE(stop);
      EXPECT_EQ(step, 8);
      EXPECT_EQ(stop->kind, StopKind::signal);
      EXPECT_EQ(stop->rank, who);
      EXPECT_EQ(stop->text(), cat("SIGUSR1 on rank ", who));
      EXPECT_EQ(stop->exit_code(), exit_to_go_on);
    });
  }
}

TEST_P(RoundQuestions, ASignalAtTheLastStepStopsNobodyOrAll) {
  workers([&](Worker& worker) {
    const int last = GetParam() - 1;
    for (std::int64_t step = 1; step <= 5; ++step) {
      if (step == 5 && worker.me() == last) worker.stop->note_signal(SIGTERM);
      EXPECT_FALSE(worker.manager().should_save(step));
      EXPECT_FALSE(worker.manager().should_stop());
    }
    // The last question's reduction is still under way when the manager ends.
    EXPECT_EQ(worker.group->begun, 5);
    EXPECT_EQ(worker.group->ended, 4);
  });
}

TEST_P(RoundQuestions, OneReductionAStepAndNothingElse) {
  workers([&](Worker& worker) {
    for (std::int64_t step = 1; step <= 50; ++step) {
      EXPECT_FALSE(worker.manager().should_save(step));
      EXPECT_FALSE(worker.manager().should_stop());
      EXPECT_EQ(worker.group->begun, step);
    }
    EXPECT_EQ(worker.group->collectives, 0);
  });
  workers([&](Worker& worker) {  // the other way round, and each alone
    for (std::int64_t step = 1; step <= 50; ++step) {
      EXPECT_FALSE(worker.manager().should_stop());
      EXPECT_FALSE(worker.manager().should_save(step));
      EXPECT_EQ(worker.group->begun, step);
    }
    for (int more = 1; more <= 10; ++more) {
      EXPECT_FALSE(worker.manager().should_stop());
      EXPECT_EQ(worker.group->begun, 50 + more);
    }
    EXPECT_EQ(worker.group->collectives, 0);
  });
}

TEST_P(RoundQuestions, WithoutReasonsAndClockNobodyIsAsked) {
  options_.when.interval = every_steps(4);
  workers(
      [&](Worker& worker) {
        EXPECT_EQ(saved_steps(worker, 1, 13, [](auto) {}), (Steps{4, 8, 12}));
        EXPECT_FALSE(worker.manager().should_stop());
        EXPECT_EQ(worker.group->begun, 3);  // of the saves
      },
      {}, false);
}

TEST_P(RoundQuestions, EverySoManyStepsAlsoWhenTheyArePassed) {
  options_.when.interval = every_steps(10);
  workers([&](Worker& worker) {
    Steps saved;
    for (const std::int64_t step : {7, 14, 21, 28, 30, 30, 39, 62}) {
      if (!worker.manager().should_save(step)) continue;
      saved.push_back(step);
      worker.rank->save(step);
    }
    EXPECT_EQ(saved, (Steps{14, 21, 30, 62}));
  });
}

TEST_P(RoundQuestions, EverySoManySecondsByTheClockOfRankZero) {
  options_.when.interval = every_seconds(10);
  workers([&](Worker& worker) {
    // Each step takes 3 s on rank 0; the clocks of others stand still or run wild. The count begins
    // with the first question, and again with each save.
    const auto saved = saved_steps(worker, 1, 16, [&](auto) {
      *worker.time += worker.me() == 0 ? 3 : worker.me() == 1 ? 0 : 1e5;
    });
    // The first question is at 3 s: a save is due from 13 s on, so at step 5 (15 s), and the answer
    // comes at step 6 (18 s); and so on.
    EXPECT_EQ(saved, (Steps{6, 11, 16}));
  });
}

TEST_P(RoundQuestions, ASaveBetweenQuestionAndAnswerIsEnough) {
  options_.when.interval = {.steps = 5, .seconds = 10};
  workers([&](Worker& worker) {
    const auto saved = saved_steps(worker, 1, 7, [&](auto step) {
      if (step == 5)
        *worker.time += 100;  // due by the clock, in the very round that saves by steps
    });
    EXPECT_EQ(saved, (Steps{5}));
  });
}

TEST_P(RoundQuestions, ALoopThatAsksAtItsTopGoesOnFromWhatItRestored) {
  struct Case {
    SaveInterval interval;
    std::optional<Steps> saved, again;  // exactly; nothing: whenever, by what saves have cost
  };
  const std::vector<Case> cases = {
      {every_steps(10), Steps{10, 20, 30}, Steps{40, 50}},
      {every_seconds(10), Steps{12, 23}, Steps{33, 44}},
      {{.steps = 25, .seconds = 10}, Steps{12, 23, 25}, Steps{35, 46}},
      {optimal(10'000), std::nullopt, std::nullopt},
      {optimal(Mtbf::per_node(10'000)), std::nullopt, std::nullopt},
      {optimal(Mtbf::learnt(10'000)), std::nullopt, std::nullopt},
  };
  for (const auto& one : cases) {
    const auto& interval = one.interval;
    for (const bool stops : {false, true}) {
      SCOPED_TRACE(cat(interval.steps, " steps, ", interval.seconds, " s, stops: ", stops));
      options_.write.file_system = files_ = std::make_shared<io::MemoryFileSystem>();
      options_.when.interval = interval;
      const auto tick = [](Worker& worker) {
        return [&worker](auto) { *worker.time += worker.me() == 0 ? 1 : 0; };
      };
      workers([&](Worker& worker) {
        const auto steps = saved_steps(worker, 1, 30, tick(worker));
        EXPECT_EQ(steps, one.saved.value_or(steps));
        if (steps.empty()) worker.rank->save(30);
      });
      for (int restart = 0; restart < 2; ++restart) {
        workers([&](Worker& worker) {
          const auto from = worker.rank->latest();
          if (stops && worker.me() == GetParam() - 1) worker.stop->request();
          if (!stops && restart == 0) EXPECT_FALSE(worker.manager().should_save(from));
          const auto steps = saved_steps(worker, from, from + 24, tick(worker));
          if (!stops && restart == 0) EXPECT_EQ(steps, one.again.value_or(steps));
          // A stop that one question learns of is the answer to the next.
          if (stops) {
            ASSERT_FALSE(steps.empty());
            EXPECT_EQ(steps.front(), from + 1);
            EXPECT_TRUE(worker.manager().should_stop());
          }
        });
      }
    }
  }
}

TEST_P(RoundQuestions, WhatWasDueBeforeARestoreIsNotDueAfterIt) {
  options_.when.interval = every_seconds(10);
  workers([&](Worker& worker) {
    auto& manager = worker.manager();
    worker.rank->save(1);
    worker.rank->save(2);
    *worker.time += 100;
    EXPECT_FALSE(manager.should_save(3));  // the answer is under way
    worker.rank->step = 0;
    EXPECT_EQ(manager.restore(1, worker.rank->state).step, 1);
    EXPECT_EQ(saved_steps(worker, 1, 8, [](auto) {}), Steps{});
    if (worker.me() == GetParam() - 1) worker.stop->request();
    while (!manager.should_stop()) continue;
    EXPECT_EQ(manager.restore(1, worker.rank->state).step, 1);
    EXPECT_EQ(saved_steps(worker, 1, 8, [](auto) {}), Steps{2});
  });
}

TEST_P(RoundQuestions, OptimalSavesAreAsFarApartAsTheFormulaSays) {
  options_.when.interval = optimal(10'000);
  workers([&](Worker& worker) {
    // Nothing has been measured yet, so a save is taken to cost a second. Its real cost is far
    // less.
    const auto first = static_cast<std::int64_t>(std::ceil(optimal_interval(1, 10'000)));
    const auto saved = saved_steps(worker, 1, first + 20, [&](auto) { *worker.time += 1; });
    ASSERT_FALSE(saved.empty());
    EXPECT_EQ(saved.front(), first + 2);
    const auto statistics = worker.manager().statistics().last;
    EXPECT_EQ(statistics.size(), saved.size());
  });
}

TEST_P(RoundQuestions, TheMeanTimeOfANodeIsSharedByNodes) {
  options_.when.interval = optimal(Mtbf::per_node(40'000));
  run_threads(4,
              [&](std::shared_ptr<Group> group) {
                auto options = options_;
                const auto time = std::make_shared<double>(0);
                options.when.clock = [time] { return *time; };
                Rank rank(group, options);
                const auto first =
                    static_cast<std::int64_t>(std::ceil(optimal_interval(1, 20'000)));
                std::int64_t step = 1;
                while (!rank.manager.should_save(step)) *time += 1, ++step;
                EXPECT_EQ(step, first + 2);
              },
              {.ranks_per_node = 2});
}

TEST_P(RoundQuestions, TheMeanTimeIsLearntFromRunsThatFailed) {
  options_.when.interval = optimal(Mtbf::learnt(30'000));
  const auto runs = [&] {
    return RunHistory::parse(io::read_file(*files_, "/run/.cairn/runs.ckpt", 1 << 20)).value();
  };
  workers([&](Worker& worker) {
    worker.rank->save(1);
    *worker.time += 500;
  });
  EXPECT_EQ(runs().runs.size(), 1U);
  EXPECT_EQ(runs().runs[0].end, RunHistory::JobRun::End::well);
  EXPECT_DOUBLE_EQ(runs().runs[0].lived, 500);
  EXPECT_THROW(workers([&](Worker&) { throw std::runtime_error("the application"); }),
               std::runtime_error);
  EXPECT_EQ(runs().runs[1].end, RunHistory::JobRun::End::open);
  workers([&](Worker&) { EXPECT_EQ(runs().runs[1].end, RunHistory::JobRun::End::failed); });
  // The run never saved: only runs that did count.
  EXPECT_DOUBLE_EQ(runs().mtbf(30'000), 30'500);
  // TensorFlow's state file is unchanged, and a manager that does not learn leaves the history
  // alone.
  options_.when.interval = {};
  workers([&](Worker& worker) { EXPECT_EQ(worker.rank->steps(), Steps{1}); });
  EXPECT_EQ(runs().runs.size(), 3U);
}

TEST_P(RoundQuestions, TheApplicationsReasonStopsAll) {
  workers([&](Worker& worker) {
    const int who = GetParam() / 2;
    if (worker.me() == who) worker.stop->request();
    EXPECT_FALSE(worker.manager().should_stop());
    const auto stop = worker.manager().should_stop();
    ASSERT_TRUE(stop);
    EXPECT_EQ(stop->text(), cat("application, on rank ", who));
    EXPECT_EQ(stop->exit_code(), exit_on_request);
    // The answer stays yes, at no further cost: a save is due until one was made.
    EXPECT_TRUE(worker.manager().should_save(3));
    EXPECT_TRUE(worker.manager().should_save(4));
    worker.rank->save(4);
    EXPECT_FALSE(worker.manager().should_save(4));
    EXPECT_FALSE(worker.manager().should_save(5));
    EXPECT_TRUE(worker.manager().should_stop());
    EXPECT_EQ(worker.group->begun, 2);  // the other is the save's
  });
}

TEST_P(RoundQuestions, AFileStopsAndIsRemoved) {
  const auto stops = [&](Worker& worker) {
    for (std::int64_t step = 1; step <= 40; ++step) {
      *worker.time += 1;
      worker.manager().should_save(step);
      if (const auto stop = worker.manager().should_stop()) {
        EXPECT_EQ(stop->text(), "file /run/STOP");
        EXPECT_EQ(stop->exit_code(), exit_on_request);
        return step;
      }
      worker.group->barrier();
      if (step == 14 && worker.me() == 0) io::write_file(*files_, "/run/STOP", "");
    }
    return std::int64_t{-1};
  };
  const StopOptions how{.signals = {}, .time_limit = false, .look_seconds = 10};
  // The file is looked for at 1, 11 and 21 s; the next question has the answer.
  workers([&](Worker& worker) { EXPECT_EQ(stops(worker), 22); }, how);
  EXPECT_FALSE(io::exists(*files_, "/run/STOP"));
  // The removal is durable: otherwise a crash brings the file back, and it stops the next job.
  std::vector<std::string> done;
  for (std::size_t i = 0; i < files_->operation_count(); ++i) {
    done.push_back(files_->operation_text(i));
  }
  const auto removal = std::find(done.begin(), done.end(), "remove /run/STOP");
  ASSERT_NE(removal, done.end());
  EXPECT_NE(std::find(removal, done.end(), "sync_directory /run"), done.end());
  io::write_file(*files_, "/run/STOP", "");
  workers([&](Worker& worker) { EXPECT_EQ(stops(worker), 2); }, how);
  workers([&](Worker& worker) { EXPECT_FALSE(worker.manager().should_stop()); }, how);
}

TEST_P(RoundQuestions, StopsWhenTheTimeLeftIsJustEnough) {
  const double end = 1e9 + 1000;
  workers(
      [&](Worker& worker) {
        std::int64_t step = 0;
        std::optional<StopReason> stop;
        while (!stop && step < 200) {
          *worker.time += 10;
          ++step;
          worker.manager().should_save(step);
          stop = worker.manager().should_stop();
        }
        // The margin is 50 s and a step takes 10 s: at 930 it is too late, and the answer comes one
        // step later.
        ASSERT_TRUE(stop);
        EXPECT_EQ(step, 94);
        EXPECT_EQ(stop->kind, StopKind::time_limit);
        EXPECT_EQ(stop->end_seconds, end);
        EXPECT_EQ(stop->left_seconds, 70);
        EXPECT_EQ(stop->save_seconds, -1);
        EXPECT_THAT(stop->text(),
                    test::Says("2001-09-09 02:03:20 UTC: 70 s left, no save was measured"));
      },
      {.signals = {}, .end_seconds = end, .margin_seconds = 50});
}

TEST_P(RoundQuestions, ALimitThatWasOverWhenTheJobBeganStopsNobody) {
  workers(
      [&](Worker& worker) {
        EXPECT_EQ(saved_steps(worker, 1, 9, [&](auto) { *worker.time += 10; }), Steps{});
        EXPECT_FALSE(worker.manager().should_stop());
      },
      {.signals = {}, .end_seconds = 1e9 - 86222, .margin_seconds = 50});
}

TEST_P(RoundQuestions, WhatSavesTakeCountsForTheTimeLimitAlsoWhatTheCheckpointTells) {
  workers([&](Worker& worker) { worker.rank->save(1); });
  workers(
      [&](Worker& worker) {
        EXPECT_FALSE(worker.manager().should_stop());
        const auto stop = worker.manager().should_stop();
        ASSERT_TRUE(stop);
        EXPECT_GE(stop->save_seconds, 0);
        EXPECT_LT(stop->save_seconds, 50);
        EXPECT_THAT(stop->text(), test::Says("a save takes"));
      },
      {.signals = {}, .end_seconds = 1e9 + 50, .margin_seconds = 50});
}

TEST_P(RoundQuestions, ASavePendingIsCommittedByTheQuestions) {
  workers([&](Worker& worker) {
    auto& manager = worker.manager();
    const auto handle = manager.save_async(1, worker.rank->state);
    for (std::int64_t step = 2; !handle.committed() && step < 1'000'000; ++step) {
      manager.should_save(step);
    }
    EXPECT_TRUE(handle.committed());
    EXPECT_EQ(worker.rank->steps(), Steps{1});
  });
}

TEST_P(RoundQuestions, TheLastSaveIsNotSkipped) {
  options_.async.when_busy = WhenBusy::skip;
  workers([&](Worker& worker) {
    auto& manager = worker.manager();
    worker.stop->request();
    manager.should_stop();
    ASSERT_TRUE(manager.should_stop());
    manager.save_async(1, worker.rank->state);  // may still be on its way
    const auto last = manager.save_async(2, worker.rank->state);
    EXPECT_NE(last.stage(), SaveStage::skipped);
    manager.wait();
    EXPECT_EQ(worker.rank->steps(), (Steps{1, 2}));
  });
}

TEST_P(RoundQuestions, RefusesIntervalsThatCannotBe) {
  for (const auto& interval : {every_steps(-1), every_seconds(-1), every_seconds(std::nan("")),
                               optimal(0), optimal(Mtbf::per_node(-5))}) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      auto options = options_;
      options.when.interval = interval;
      test::expect_error(Code::invalid_argument,
                         test::Says("a number in WhenOptions::interval cannot be used"),
                         [&] { Rank rank(group, options); });
    });
  }
}

TEST_P(RoundQuestions, RanksMustAgreeOnTheInterval) {
  if (GetParam() == 1) return;
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    options.when.interval = every_steps(group->rank() == 1 ? 5 : 6);
    test::expect_error(
        Code::disagreement,
        test::Says(
            "ranks disagree on ManagerOptions: when.interval.steps is 6 on rank 0 and 5 on rank 1"),
        [&] { Rank rank(group, options); });
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, RoundQuestions, testing::Values(1, 2, 4));

}  // namespace
}  // namespace cairn
