// Runs that restore a step from the nodes and get no further.
#include <gmock/gmock.h>

#include <vector>

#include "session/nodes/flush_kit.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;

class TierRestarts : public test::TierFlushTest {
 protected:
  struct Dies {};

  std::int64_t dies(const std::function<void(Rank&)>& first = nullptr) {
    std::int64_t step = -1;
    const auto run = [&] {
      go(0, [&](Rank& rank) {
        const auto restored = rank.restore();
        if (rank.group->rank() == 0) step = restored;
        if (first) first(rank);
        throw Dies();
      });
    };
    EXPECT_THROW(run(), Dies);
    return step;
  }
};

TEST_F(TierRestarts, AnOlderOneIsTakenFromThereOrFromHome) {
  go(0, [](Rank& rank) {
    for (const int step : {1, 2, 3}) rank.save(step);
    EXPECT_EQ(rank.steps(), "1h 2n 3n!");
  });
  std::vector<std::int64_t> steps;
  for (int i = 0; i < 7; ++i) steps.push_back(dies());
  EXPECT_THAT(steps, ElementsAre(3, 3, 3, 2, 2, 2, 1));
  listen();
  go(0, [](Rank& rank) {
    State& state = rank.state;
    const auto report = rank.manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 1);
    EXPECT_EQ(report->skipped.size(), 2U);
    rank.save(4);
  });
  EXPECT_EQ(times_said("passed over on the nodes: step 3: 3 runs"), 1);
  EXPECT_EQ(dies(), 4) << "saves went on from there";
}

TEST_F(TierRestarts, ASaveOnTheNodesIsANewerCommit) {
  go(0, [](Rank& rank) { rank.save(1); });
  for (int step = 1; step < 3; ++step) {
    dies();
    dies();
    EXPECT_EQ(dies([&](Rank& rank) { rank.save(step + 1); }), step);
  }
  EXPECT_EQ(dies(), 3);
}

TEST_F(TierRestarts, ItIsTheSameStepAtHome) {
  go(0, [](Rank& rank) {
    rank.save(1);
    rank.save(2);
  });
  EXPECT_EQ(dies(), 2);
  EXPECT_EQ(dies(), 2);
  go(0, [](Rank& rank) {
    EXPECT_EQ(rank.restore(), 2);
    rank.manager.wait(Reach::home);
    EXPECT_EQ(rank.steps(), "1h 2nh!");
  });
  lose_nodes();
  EXPECT_EQ(dies(), 2);
  EXPECT_EQ(dies(), 1);
}

TEST_F(TierRestarts, MarkedBadItComesHomeAndIsPassedOver) {
  go(0, [](Rank& rank) {
    rank.save(1);
    rank.save(2);
    rank.manager.mark(2, StepMark::bad);
    EXPECT_EQ(rank.steps(), "1h 2nh!");
    EXPECT_EQ(rank.restore(), 1);
  });
  EXPECT_EQ(dies(), 1);
}

}  // namespace
}  // namespace cairn
