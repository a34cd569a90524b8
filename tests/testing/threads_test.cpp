// Thread ranks beyond what every Group does: failures, deadlocks, crashes, the scheduler.
#include "testing/threads.hpp"

#include <array>
#include <atomic>
#include <barrier>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/text.hpp"
#include "group/collectives.hpp"
#include "support/group_kit.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::error_of;
using test::expect_error;
using ::testing::AllOf;
using ::testing::HasSubstr;

using SharedGroup = std::shared_ptr<Group>;

/// The parameter is a seed, or none.
class ThreadRanks : public ::testing::TestWithParam<std::optional<unsigned>> {
 protected:
  void run(int ranks, const std::function<void(SharedGroup)>& body) const {
    run_threads(ranks, body, {.seed = GetParam()});
  }
};
INSTANTIATE_TEST_SUITE_P(Schedules, ThreadRanks,
                         ::testing::Values(std::optional<unsigned>(), 1u, 2u, 3u),
                         [](const auto& info) {
                           return info.param ? cat("seed_", *info.param) : "free";
                         });

TEST_P(ThreadRanks, RunAllAndJoin) {
  std::atomic<int> ended = 0;
  run(64, [&](SharedGroup group) {
    EXPECT_EQ(all_reduce(*group, group->rank(), Group::Op::sum), 64 * 63 / 2);
    ++ended;
  });
  EXPECT_EQ(ended, 64);
}

TEST_P(ThreadRanks, NoRanksAreRefused) {
  expect_error([&] { run(0, [](SharedGroup) {}); }, Code::invalid_argument, "a group of 0 ranks");
}

TEST_P(ThreadRanks, TheLowestRanksExceptionIsRethrownAfterAllEnded) {
  std::atomic<int> ended = 0;
  try {
    run(7, [&](SharedGroup group) {
      struct Count {
        std::atomic<int>& ended;
        ~Count() { ++ended; }
      } count{ended};
      group->barrier();
      if (group->rank() >= 3) throw std::runtime_error(cat("rank ", group->rank()));
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 3");
  }
  EXPECT_EQ(ended, 7);
}

TEST_P(ThreadRanks, TheCauseGoesBeforeItsConsequences) {
  // Ranks 0 and 1 fail because rank 2 failed.
  try {
    run(3, [&](SharedGroup group) {
      if (group->rank() == 2) throw std::runtime_error("the cause");
      group->barrier();
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), test::wording("the cause"));
  }
}

TEST_P(ThreadRanks, AnEndedRankHangsNobody) {
  const auto waits = [&](auto operation, const std::string& name) {
    SCOPED_TRACE(name);
    run(3, [&](SharedGroup group) {
      if (group->rank() == 2) return;
      expect_error([&] { operation(*group); }, Code::communication,
                   AllOf(HasSubstr(cat("rank 2 has ended while rank ", group->rank(),
                                       " waits for it in ", name)),
                         test::Says("it returned or threw before it took part")));
    });
  };
  std::string bytes(8, '?');
  waits([](Group& group) { group.barrier(); }, "barrier");
  waits([](Group& group) { all_reduce(group, 1, Group::Op::sum); }, "all_reduce");
  waits([](Group& group) { broadcast_text(group, "", 2); }, "broadcast");
  waits([](Group& group) { group.receive(2); }, "receive");
  waits([](Group& group) { group.send(2, "text"); }, "send");
  waits(
      [](Group& group) {
        std::string in(8, '?');
        group.exchange({}, std::vector<Group::Receive>{{2, std::as_writable_bytes(std::span(in))}});
      },
      "exchange");
  waits(
      [&](Group& group) {
        group.exchange(std::vector<Group::Send>{{2, std::as_bytes(std::span(bytes))}}, {});
      },
      "exchange");
}

TEST_P(ThreadRanks, ARankThatEndsLaterStillFreesItsWaiters) {
  // When rank 0 leaves, the others wait already, or not yet: all must get the error.
  run(5, [&](SharedGroup group) {
    group->barrier();
    if (group->rank() == 0) return;
    expect_error([&] { group->barrier(); }, Code::communication, test::Says("rank 0 has ended"));
    expect_error([&] { group->barrier(); }, Code::communication, test::Says("rank 0 has ended"));
  });
}

TEST_P(ThreadRanks, WhatARankGaveBeforeItEndedCounts) {
  run(4, [&](SharedGroup group) {
    const auto text = broadcast_text(*group, group->rank() == 0 ? "left behind" : "", 0);
    EXPECT_EQ(text, "left behind");
    if (group->rank() == 3) {
      EXPECT_EQ(group->receive(0), "and this");
    }
    if (group->rank() == 0) group->send(3, "and this");
  });
}

TEST_P(ThreadRanks, DeadlocksAreReported) {
  run(3, [&](SharedGroup group) {
    const auto error = error_of([&] {
      if (group->rank() == 2) {
        group->barrier();
      } else {
        group->receive(1 - group->rank());
      }
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::communication);
    EXPECT_EQ(error->what(),
              test::wording("deadlock: no rank can go on (rank 0 in receive for rank 1, rank 1 "
                            "in receive for rank 0, rank 2 in barrier)"));
  });
}

TEST_P(ThreadRanks, ADeadlockOfThoseWhoAreLeftIsReported) {
  run(3, [&](SharedGroup group) {
    if (group->rank() == 2) return;
    expect_error([&] { group->receive(1 - group->rank()); }, Code::communication,
                 test::Says("deadlock: no rank can go on"));
  });
}

TEST_P(ThreadRanks, TwoRanksThatBothSendFirstAreADeadlock) {
  run(2, [&](SharedGroup group) {
    expect_error([&] { group->send(1 - group->rank(), "after you"); }, Code::communication,
                 test::Says("rank 0 in send for rank 1, rank 1 in send for rank 0"));
  });
}

TEST_P(ThreadRanks, DifferentCollectivesAreReported) {
  const auto error = error_of([&] {
    run(2, [&](SharedGroup group) {
      if (group->rank() == 0) {
        group->barrier();
      } else {
        std::vector<std::int64_t> values(3);
        group->all_reduce(values, Group::Op::max);
      }
    });
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(),
              AllOf(test::Says("ranks call different collectives"), test::Says("calls barrier"),
                    test::Says("rank 1 calls all_reduce of 3 values (max)")));
  expect_error(
      [&] { run(2, [&](SharedGroup group) { broadcast_text(*group, "", group->rank()); }); },
      Code::communication, test::Says("calls broadcast from rank"));
}

TEST_P(ThreadRanks, AWrongLengthIsReported) {
  const auto error = error_of([&] {
    run(2, [&](SharedGroup group) {
      std::string in(5, '?');
      const auto bytes = std::as_writable_bytes(std::span(in));
      if (group->rank() == 0) {
        group->exchange(std::vector<Group::Send>{{1, bytes.first(3)}}, {});
      } else {
        group->exchange({}, std::vector<Group::Receive>{{0, bytes}});
      }
    });
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->what(),
            test::wording("a message from rank 0 to rank 1 has 3 bytes where 5 were expected"));
}

TEST_P(ThreadRanks, AbortEndsAllRanksAndNotTheProcess) {
  std::atomic<int> told = 0;
  const auto error = error_of([&] {
    run(4, [&](SharedGroup group) {
      try {
        group->barrier();
        if (group->rank() == 2) group->abort("the wire is cut");
        group->receive((group->rank() + 1) % 4);
      } catch (const Error& caught) {
        EXPECT_EQ(caught.what(), test::wording("rank 2 has aborted the job: the wire is cut"));
        EXPECT_EQ(caught.rank(), 2);
        ++told;
        throw;
      }
    });
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::communication);
  EXPECT_EQ(told, 4);
}

TEST_P(ThreadRanks, OnlyTheRanksThreadMayUseItsGroup) {
  SharedGroup left_over;
  run(2, [&](SharedGroup group) {
    if (group->rank() == 0) left_over = group;
    std::thread([&] {
      expect_error([&] { group->barrier(); }, Code::internal,
                   test::Says("is used outside the thread of that rank"));
    }).join();
  });
  expect_error([&] { left_over->send(1, ""); }, Code::internal,
               "the group of rank 0 is used outside the thread of that rank");
}

TEST_P(ThreadRanks, CrashStopsEveryRank) {
  std::atomic<int> unwound = 0;
  const auto body = [&](SharedGroup group) {
    struct Count {
      std::atomic<int>& unwound;
      ~Count() {
        yield_point();  // as a file operation in a destructor would
        ++unwound;
      }
    } count{unwound};
    for (int i = 0;; ++i) {
      if (group->rank() == 1 && i == 5) crash();
      yield_point();
      run_and_agree(*group, [] { yield_point(); });
    }
  };
  EXPECT_THROW(run(4, body), Crashed);
  EXPECT_EQ(unwound, 4);
}

TEST_P(ThreadRanks, CrashedThrownByHandCrashesAll) {
  EXPECT_THROW(run(3,
                   [&](SharedGroup group) {
                     if (group->rank() == 2) throw Crashed{};
                     group->barrier();
                   }),
               Crashed);
}

TEST_P(ThreadRanks, CrashReachesRanksThatDoNotCommunicate) {
  EXPECT_THROW(run(3,
                   [&](SharedGroup group) {
                     if (group->rank() == 0) crash();
                     for (;;) yield_point();
                   }),
               Crashed);
}

TEST_P(ThreadRanks, AThousandRanksGatherThroughATree) {
  constexpr int ranks = test::sanitized ? 150 : 1000;
  run(ranks, [&](SharedGroup group) {
    const auto all = gather(*group, cat("rank ", group->rank()));
    if (group->rank() == 0) {
      ASSERT_EQ(all.size(), std::size_t{ranks});
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(all[static_cast<std::size_t>(rank)], cat("rank ", rank));
      }
    }
    EXPECT_EQ(scatter(*group, all), cat("rank ", group->rank()));
    require_same(*group, "the step", "10");
    EXPECT_THROW(agree(*group, group->rank() == ranks - 1 ? std::optional(Error(Code::io, "disk"))
                                                          : std::nullopt),
                 Error);
  });
}

TEST(Nodes, RanksShareNodesInBlocks) {
  run_threads(7, [](SharedGroup group) { EXPECT_EQ(group->node(), group->rank() / 3); },
              {.ranks_per_node = 3});
}

TEST(YieldPoint, IsNothingOnOtherThreads) { EXPECT_NO_THROW(yield_point()); }

TEST(YieldPoint, CrashNeedsARank) {
  expect_error([] { crash(); }, Code::internal, test::Says("outside the thread of a rank"));
}

/// The order in which ranks pass yield points and all kinds of operations.
std::vector<int> trail(unsigned seed, int ranks) {
  std::vector<int> visits;  // one rank runs at a time: no guard is needed
  run_threads(ranks,
              [&](SharedGroup group) {
                const int me = group->rank(), size = group->size();
                const auto visit = [&] { visits.push_back(me); };
                for (int i = 0; i < 4; ++i) {
                  yield_point();
                  visit();
                }
                group->barrier();
                visit();
                for (int i = 0; i < 3; ++i) {
                  const std::string out(5, 'x');
                  std::string in(5, '?');
                  group->exchange(
                      std::vector<Group::Send>{{(me + 1) % size, std::as_bytes(std::span(out))}},
                      std::vector<Group::Receive>{
                          {(me + size - 1) % size, std::as_writable_bytes(std::span(in))}});
                  visit();
                }
                gather(*group, "text");
                visit();
                all_reduce(*group, 1, Group::Op::sum);
                visit();
              },
              {.seed = seed});
  return visits;
}

TEST(Scheduler, TheSeedAloneDecidesTheInterleaving) {
  std::set<std::vector<int>> seen;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto first = trail(seed, 4);
    EXPECT_EQ(first.size(), 4u * 10u);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(trail(seed, 4), first) << "seed " << seed;
    seen.insert(first);
  }
  EXPECT_EQ(seen.size(), 20u);
}

TEST(Scheduler, TheInterleavingIsTheSameOnEveryPlatform) {
  std::vector<int> visits;
  run_threads(3,
              [&](SharedGroup group) {
                for (int i = 0; i < 4; ++i) {
                  visits.push_back(group->rank());
                  yield_point();
                }
              },
              {.seed = 7});
  EXPECT_THAT(visits, ::testing::ElementsAre(0, 1, 1, 2, 1, 0, 2, 2, 1, 2, 0, 0));
}

TEST(Scheduler, SixtyFourRanksRepeat) { EXPECT_EQ(trail(5, 64), trail(5, 64)); }

TEST(Scheduler, EveryOrderOfThreeRanksIsReached) {
  std::set<std::vector<int>> orders;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::vector<int> order;
    run_threads(3, [&](SharedGroup group) { order.push_back(group->rank()); }, {.seed = seed});
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST(Scheduler, OneRankRunsAtATime) {
  std::atomic<int> running = 0;
  run_threads(8,
              [&](SharedGroup group) {
                for (int i = 0; i < 50; ++i) {
                  EXPECT_EQ(running.fetch_add(1), 0);
                  EXPECT_EQ(running.fetch_sub(1), 1);
                  if (i % 5 == 0) {
                    group->barrier();
                  } else {
                    yield_point();
                  }
                }
              },
              {.seed = 11});
}

TEST(Scheduler, WithoutASeedRanksRunAtTheSameTime) {
  std::barrier<> meeting(4);  // would never open if ranks took turns
  run_threads(4, [&](SharedGroup) { meeting.arrive_and_wait(); });
}

TEST(Threads, AReductionThatARankNeverBeginsIsAnError) {
  for (const bool throws : {false, true}) {
    int told = 0;
    const auto body = [&](std::shared_ptr<Group> group) {
      const auto sum = group->reduction(1, Group::Op::sum);
      std::array<std::int64_t, 1> value{1};
      if (group->rank() == 1) {
        if (throws) throw std::runtime_error("on its way");
        return;
      }
      sum->begin(value);  // waits for nobody
      EXPECT_THAT(error_of([&] { sum->end(value); })->what(),
                  test::Says("rank 1 has ended while rank 0 waits for it in reduction"));
      ++told;
    };
    if (throws) {
      EXPECT_THROW(run_threads(2, body), std::runtime_error);
    } else {
      run_threads(2, body);
    }
    EXPECT_EQ(told, 1);
  }
}

TEST(Threads, AReductionAmongOtherCollectivesIsNamed) {
  const auto error = error_of([&] {
    run_threads(2, [](auto group) {
      const auto sum = group->reduction(3, Group::Op::sum);
      if (group->rank() == 0) {
        sum->begin(std::array<std::int64_t, 3>{});
      }
      group->barrier();
    });
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), test::Says("ranks call different collectives"));
  EXPECT_THAT(error->what(), test::Says("reduction of 3 values (sum)"));
}

}  // namespace
}  // namespace cairn
