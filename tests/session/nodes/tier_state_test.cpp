// All kinds of values in a state are restored from the nodes as from the directory.
#include <gmock/gmock.h>

#include <algorithm>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/ragged.hpp"
#include "session/nodes/tier_kit.hpp"
#include "store/nodes/place.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using test::nth;
using test::SampleState;
using test::TierTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST_F(TierTest, PrivateItemsAreDealtToOtherRanks) {
  const auto go = [&](int ranks, int first,
                      const std::function<void(CheckpointManager&, int)>& body) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options(group->rank(), 1, first));
      body(manager, group->rank());
    });
  };
  go(4, 0, [](auto& manager, int rank) {
    double mine = rank;
    State state;
    state.add("mine", rank_private(mine));
    manager.save(1, state);
    manager.save(2, state);
  });
  lose_node(0);
  // The same ranks, on nodes in another order.
  run_threads(4, [&](std::shared_ptr<Group> group) {
    auto some = options(3 - group->rank(), 1);
    CheckpointManager manager(group, "/run", some);
    double mine = -1;
    State state;
    state.add("mine", rank_private(mine));
    EXPECT_EQ(manager.restore_latest(state)->step, 2);
    EXPECT_EQ(mine, group->rank());
  });
  for (const auto& path : find("/run", "ckpt-2")) files_->remove(path);
  go(3, 1, [](auto& manager, int rank) {
    double mine = -1;
    State state;
    PrivateOptions options;
    options.deal = [](int one, int, int stored) { return stored - 1 - one; };
    state.add("mine", rank_private(mine, options));
    EXPECT_EQ(manager.restore(2, state).step, 2);
    EXPECT_EQ(mine, 3 - rank);
  });
  for (const auto& path : find("/run", "ckpt-2")) files_->remove(path);
  go(3, 1, [](auto& manager, int) {
    double mine = -1;
    State state;
    state.add("mine", rank_private(mine, {.optional = true}));
    const auto report = manager.restore(2, state);
    EXPECT_EQ(report.step, 2);
    EXPECT_EQ(mine, -1);
    EXPECT_THAT(report.kept_keys, testing::ElementsAre("mine"));
  });
}

TEST_F(TierTest, WhatTheStateDoesNotWantIsTold) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    double a = 1, b = 2;
    State both, one;
    both.add("a", a).add("b", b);
    one.add("a", a);
    CheckpointManager manager(group, "/run", options(group->rank(), 1));
    manager.save(1, both);
    manager.save(2, both);
    a = 0;
    test::expect_error([&] { manager.restore(2, one, {.unused = Unused::error}); },
                       Code::invalid_argument, test::Says("does not want 'b'"));
    EXPECT_EQ(a, 0);
    EXPECT_THAT(manager.restore(2, one).unused_keys, testing::ElementsAre("b"));
  });
}

TEST_F(TierTest, AllThatAStateHasComesBack) {
  const auto go = [&](int ranks, const std::function<void(CheckpointManager&, State&, int)>& body) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      State state;
      CheckpointManager manager(group, "/run", options(group->rank(), 1));
      body(manager, state, group->rank());
    });
  };
  std::vector<float> odd(10);
  go(4, [&](auto& manager, State& state, int rank) {
    float scalar = 2.5f;
    double none = 0;
    std::string word = "one";
    std::vector<double> grid(5000, rank);
    std::vector<std::uint16_t> half(3, 77);
    state.add("scalar", scalar);
    state.add("none", whole(&none, {0, 3}));
    state.add("word", word);
    auto brain = whole(half.data(), {3});
    brain.dtype = DType::bfloat16;
    state.add("half", brain);
    LocalTensor many = nothing(DType::float64, {20000});
    for (int i = 0; i < 5000; ++i) {
      many.slices.push_back(slice(&grid[nth(i)], {20000}, {i * 4 + rank}, {1}).slices.front());
    }
    state.add("many", many);
    state.describe(Attributes{{"who", std::string("me")}});
    manager.save(1, state);
    EXPECT_THAT(manager.save(2, state, {.metric = 4.5}), HasSubstr("/nodes/"));
  });
  lose_node(2);
  go(4, [&](auto& manager, State& state, int rank) {
    double scalar = 0, none = 7;
    std::string word;
    std::vector<double> all(20000);
    std::vector<std::uint16_t> half(3, 1);
    int extra = 9;
    state.add("number", scalar);
    state.add("none", whole(&none, {0, 3}));
    state.add("word", word);
    auto brain = whole(half.data(), {3});
    brain.dtype = DType::bfloat16;
    state.add("half", brain);
    state.add("many", whole(all.data(), {20000}));
    state.add("extra", extra);
    RestoreOptions some;
    some.rename["number"] = "scalar";
    some.may_be_missing = {"extra"};
    some.convert = Conversion::exact;
    const auto report = manager.restore_latest(state, some);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 2);
    EXPECT_EQ(scalar, 2.5);
    EXPECT_EQ(word, "one");
    EXPECT_EQ(half, std::vector<std::uint16_t>(3, 77));
    EXPECT_EQ(extra, 9);
    for (int i = 0; i < 20000; ++i) ASSERT_EQ(all[nth(i)], i % 4) << i << " on " << rank;
  });
}

TEST_F(TierTest, ObjectsComeBack) {
  for (const int ranks : {3, 2}) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      const int rank = group->rank();
      auto some = options(rank, 1, 3 - ranks);
      some.store.object_graph = true;
      std::vector<double> all(6, -1), part(2, rank);
      double mine = rank;
      State state;
      const bool saves = ranks == 3;
      state.add("model/weights",
                saves ? slice(part.data(), {6}, {2 * rank}, {2}) : whole(all.data(), {6}));
      state.add("model/mine",
                rank_private(mine, {.deal = [](int one, int, int) { return one + 1; }}));
      CheckpointManager manager(group, "/run", some);
      if (saves) {
        manager.save(1, state);
        manager.save(2, state);
        return;
      }
      EXPECT_EQ(manager.restore_latest(state)->step, 2);
      EXPECT_EQ(all, (std::vector<double>{0, 0, 1, 1, 2, 2}));
      EXPECT_EQ(mine, rank + 1);
    });
  }
}

}  // namespace
}  // namespace cairn
