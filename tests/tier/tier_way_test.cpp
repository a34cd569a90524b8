// Which saves go to the nodes, and to which.
#include <gmock/gmock.h>

#include <algorithm>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/ragged.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tier/place.hpp"
#include "tier/tier_kit.hpp"

namespace cairn {
namespace {

using test::nth;
using test::SampleState;
using test::TierTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST_F(TierTest, ASaveInFlightIsNoParentOfLaterOnes) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    double value = group->rank();
    State state;
    state.add("x", slice(&value, {2}, {group->rank()}, {1}));
    auto some = options(group->rank(), 1);
    some.tier.keep = 9;
    CheckpointManager manager(group, "/run", some);
    manager.save(1, state);
    manager.save_async(2, state, {.reach = Reach::home});
    manager.save(3, state);
    manager.save(4, state);
    manager.save(5, state);
    manager.wait();
    manager.save(6, state);
    manager.save(7, state);
  });
  const auto homes = files_->list("/nodes/n0");
  ASSERT_THAT(homes, SizeIs(1));
  auto maps = tier::list_maps(*files_, io::Path("/nodes/n0") / homes.front());
  std::sort(maps.begin(), maps.end(), [](auto& a, auto& b) { return a.sequence < b.sequence; });
  ASSERT_THAT(maps, SizeIs(5));
  for (std::size_t i = 1; i < maps.size(); ++i) {
    EXPECT_EQ(maps[i].parent, maps[i - 1].sequence) << "step " << maps[i].step;
  }
}

TEST_F(TierTest, ASaveThatRunsOutOfRoomGoesHome) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    std::vector<double> values(3000, group->rank());
    State state;
    state.add("x", slice(values.data(), {2, 3000}, {group->rank(), 0}, {1, 3000}));
    auto some = options(group->rank(), 1);
    {
      CheckpointManager manager(group, "/run", some);
      manager.save(1, state);
      group->barrier();
      if (group->rank() == 0) files_->inject({Code::no_space, "write", "/nodes/n1", 1, 1});
      group->barrier();
      EXPECT_THAT(manager.save(2, state), Not(HasSubstr("/nodes/")));
      group->barrier();
      if (group->rank() == 0) {
        files_->clear_faults();
        EXPECT_THAT(find("/nodes", ""), IsEmpty());
      }
      group->barrier();
      EXPECT_THAT(manager.save(3, state), HasSubstr("/nodes/"));
      group->barrier();
    }
    if (group->rank() == 0) files_->inject({Code::no_space, "write", "/nodes/n1", 1, 1});
    group->barrier();
    some.tier.when_full = WhenFull::fail;
    CheckpointManager manager(group, "/run", some);
    test::expect_error(Code::no_space, testing::_, [&] { manager.save(4, state); });
  });
}

TEST_F(TierTest, ASetHasAsManyNodesAsItsParityNeeds) {
  set_nodes_ = 2;  // of three nodes none may be alone
  const test::NToMCase one(3, 3, 1);
  for (int lost = 0; lost < 3; ++lost) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    save(one, 3, 1);
    lose_node(lost);
    EXPECT_EQ(restore(one, 3, 1), 2) << "lost " << lost;
  }
}

TEST_F(TierTest, GoesToNodesWhenThereIsACheckpointAtHome) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    double value = group->rank();
    State state;
    state.add("x", slice(&value, {2}, {group->rank()}, {1}));
    CheckpointManager manager(group, "/run", options(group->rank(), 1));
    group->barrier();
    if (group->rank() == 0) files_->inject({Code::io, "rename", "/run", 0, 1000});
    group->barrier();
    EXPECT_TRUE(test::error_of([&] { manager.save(1, state); }));
    group->barrier();
    if (group->rank() == 0) files_->clear_faults();
    group->barrier();
    EXPECT_THAT(manager.save(2, state), Not(HasSubstr("/nodes/")));
    EXPECT_THAT(manager.save(3, state), HasSubstr("/nodes/"));
  });
}

TEST_F(TierTest, NodesWithoutNamesAreHostsToTheNextJob) {
  for (const int ranks : {1, 1}) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      auto some = options(0, 1);
      some.tier.node.clear();
      double value = 1;
      State state;
      state.add("x", value);
      CheckpointManager manager(group, "/run", some);
      manager.save(1, state, {.overwrite = true});
      manager.save(2, state, {.overwrite = true});
    });
  }
  EXPECT_THAT(files_->list("/nodes"),
              testing::ElementsAre(tier::node_directory("%h", "").string()));
}

TEST_F(TierTest, AReaderMakesNothing) {
  const test::NToMCase one(2, 2, 1);
  save(one, 2, 1);
  for (const int first : {0, 5}) {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      auto some = options(group->rank(), 1, first);
      some.read_only = true;
      SampleState mine(one.seed);
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        mine.add(one.samples[i], one.wanted[i][nth(group->rank())], 0);
      }
      mine.poison();
      CheckpointManager manager(group, "/run", some);
      EXPECT_EQ(manager.restore_latest(mine.state())->step, first == 0 ? 2 : 1);
      EXPECT_EQ(mine.check(one.seed), "");
    });
  }
  EXPECT_FALSE(files_->status("/nodes/n5"));
}

}  // namespace
}  // namespace cairn
