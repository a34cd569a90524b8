// Managers with a tier: saves on pretended nodes, nodes that vanish with all they have, and
// restarts on other ranks and nodes.
#include "cairn/tier.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "cairn/ragged.hpp"
#include "cairn/sparse.hpp"
#include "session/nodes/tier_kit.hpp"
#include "store/commit/ownership.hpp"
#include "store/nodes/flush_node.hpp"
#include "store/nodes/place.hpp"
#include "store/nodes/tidy_node.hpp"
#include "support/group_kit.hpp"
#include "support/memory_run.hpp"
#include "support/n_to_m.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using test::nth;
using test::SampleState;
using test::TierTest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST_F(TierTest, ComesBackOnAnyRanks) {
  for (unsigned seed = 0; seed < test::rounds(4u); ++seed) {
    for (const auto& [n, a_node, m, then] :
         {std::tuple{4, 1, 4, 1}, {6, 2, 4, 1}, {3, 1, 7, 2}, {8, 2, 8, 2}}) {
      files_ = std::make_shared<io::MemoryFileSystem>();
      const test::NToMCase one(n, m, seed);
      save(one, n, a_node);
      if ((m + then - 1) / then < (n + a_node - 1) / a_node) continue;  // nodes without ranks
      EXPECT_EQ(restore(one, m, then), 2) << n << " to " << m << " seed " << seed;
    }
  }
}

TEST_F(TierTest, OneNodeOfEachSetMayVanish) {
  for (unsigned seed = 0; seed < test::rounds(3u); ++seed) {
    for (int lost = 0; lost < 4; ++lost) {
      files_ = std::make_shared<io::MemoryFileSystem>();
      const test::NToMCase one(8, 8, seed);
      save(one, 8, 2);
      lose_node(lost);
      EXPECT_EQ(restore(one, 8, 2), 2) << "lost " << lost << " seed " << seed;
      // The computed part is on the nodes again.
      EXPECT_EQ(restore(one, 8, 2), 2) << "again, lost " << lost << " seed " << seed;
    }
  }
}

TEST_F(TierTest, TwoNodesMayVanishWithReedSolomon) {
  protection_ = Protection::reed_solomon;
  set_nodes_ = 8;
  const test::NToMCase one(6, 4, 3);
  for (int a = 0; a < 6; ++a) {
    for (int b = a + 1; b < 6; ++b) {
      files_ = std::make_shared<io::MemoryFileSystem>();
      save(one, 6, 1);
      lose_node(a);
      lose_node(b);
      // The four ranks run on the four nodes of six that are left.
      std::vector<int> left;
      for (int node = 0; node < 6; ++node) {
        if (node != a && node != b) left.push_back(node);
      }
      run_threads(4, [&](std::shared_ptr<Group> group) {
        SampleState mine(one.seed);
        for (std::size_t i = 0; i < one.samples.size(); ++i) {
          mine.add(one.samples[i], one.wanted[i][nth(group->rank())], 0);
        }
        mine.poison();
        auto some = options(group->rank(), 1);
        some.tier.node = cat("n", left[nth(group->rank())]);
        CheckpointManager manager(group, "/run", some);
        const auto report = manager.restore_latest(mine.state());
        ASSERT_TRUE(report);
        EXPECT_EQ(report->step, 2);
        EXPECT_EQ(mine.check(one.seed), "") << a << " and " << b;
      });
    }
  }
}

TEST_F(TierTest, TooManyLostGoBackHome) {
  const test::NToMCase one(4, 4, 1);
  save(one, 4, 1);
  lose_node(1);
  lose_node(2);
  run_threads(4, [&](std::shared_ptr<Group> group) {
    SampleState mine(one.seed);
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      mine.add(one.samples[i], one.wanted[i][nth(group->rank())], 0);
    }
    mine.poison();
    auto strict = options(group->rank(), 1);
    strict.tier.when_lost = WhenLost::fail;
    {
      CheckpointManager manager(group, "/run", strict);
      test::expect_error(Code::data_loss, test::Says("cannot be had from the nodes"),
                         [&] { manager.restore_latest(mine.state()); });
    }
    CheckpointManager manager(group, "/run", options(group->rank(), 1));
    const auto report = manager.restore_latest(mine.state());
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 1);
    EXPECT_THAT(report->skipped, SizeIs(1));
    EXPECT_EQ(mine.check(one.seed), "");
  });
}

TEST_F(TierTest, FlippedBytesAreComputed) {
  const test::NToMCase one(4, 4, 2);
  for (int node = 0; node < 4; ++node) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    save(one, 4, 1);
    const auto parts = find(cat("/nodes/n", node), "part-");
    ASSERT_THAT(parts, SizeIs(1));
    const auto size = files_->status(parts.front())->size;
    flip(parts.front(), node % 2 == 0 ? size - 1 : 70);  // data, or the record
    EXPECT_EQ(restore(one, 4, 1), 2) << "node " << node;
  }
}

TEST_F(TierTest, NodesThatComeBackLateAreSuperseded) {
  const test::NToMCase one(4, 4, 1);
  save(one, 4, 1);
  // Nodes 0 and 1 are away; the run goes on from home on other nodes, and saves there.
  EXPECT_EQ(restore(one, 4, 1, 10), 1);
  run_threads(4, [&](std::shared_ptr<Group> group) {
    double value = group->rank();
    State state;
    state.add("x", slice(&value, {4}, {group->rank()}, {1}));
    CheckpointManager manager(group, "/run", options(group->rank(), 1, 10));
    manager.save(3, state);
  });
  // All nodes that ever were: two of each generation.
  run_threads(8, [&](std::shared_ptr<Group> group) {
    const int rank = group->rank();
    double value = -1;
    State state;
    state.add("x", slice(&value, {4}, {rank % 4}, {1}));
    auto all = options(rank, 1);
    all.tier.node = cat("n", rank < 4 ? rank : rank + 6);
    CheckpointManager manager(group, "/run", all);
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 3);
    EXPECT_EQ(value, rank % 4);
  });
}

TEST_F(TierTest, KeepsTheNewest) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    double value = 0;
    State state;
    state.add("x", slice(&value, {2}, {group->rank()}, {1}));
    auto some = options(group->rank(), 1);
    some.tier.home_every = 5;
    CheckpointManager manager(group, "/run", some);
    std::vector<bool> home;
    for (int step = 1; step <= 11; ++step) {
      value = 10 * step + group->rank();
      const auto prefix =
          step % 2 == 0 ? manager.save(step, state) : manager.save_async(step, state).prefix();
      home.push_back(prefix.find("/nodes/") == std::string::npos);
      manager.wait();
    }
    EXPECT_EQ(home, (std::vector<bool>{true, false, false, false, false, true, false, false, false,
                                       false, true}));
    std::vector<std::int64_t> steps, on_nodes;
    for (const auto& one : manager.steps()) {
      steps.push_back(one.step);
      if (one.on_nodes) on_nodes.push_back(one.step);
      EXPECT_EQ(one.margin, one.on_nodes ? 1 : 0);
      EXPECT_EQ(one.newest, one.step == 11);
    }
    EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 6, 9, 10, 11}));
    EXPECT_EQ(on_nodes, (std::vector<std::int64_t>{9, 10}));
    value = -1;
    ASSERT_TRUE(manager.restore_latest(state));
    EXPECT_EQ(value, 110 + group->rank());
    EXPECT_EQ(manager.restore(10, state).step, 10);
    EXPECT_EQ(value, 100 + group->rank());
    manager.save(12, state, {.reach = Reach::home});
    EXPECT_TRUE(files_->status("/run/ckpt-12.index"));
  });
  EXPECT_THAT(find("/nodes/n0", "map"), SizeIs(2));
  EXPECT_THAT(find("/nodes/n1", "part-"), SizeIs(2));
}

TEST_F(TierTest, AStepThatIsLostOrLeftBehindIsSavedAgain) {
  const auto go = [&](const std::function<void(CheckpointManager&, State&, double&)>& body) {
    run_threads(4, [&](std::shared_ptr<Group> group) {
      double value = group->rank();
      State state;
      state.add("x", slice(&value, {4}, {group->rank()}, {1}));
      CheckpointManager manager(group, "/run", options(group->rank(), 1));
      body(manager, state, value);
    });
  };
  go([](auto& manager, auto& state, double&) {
    for (int step = 1; step <= 3; ++step) manager.save(step, state);
    EXPECT_EQ(manager.restore(1, state).step, 1);
    manager.save(2, state);  // the other 2 and 3 are left behind
    test::expect_error(Code::already_exists, test::Says("on the nodes"),
                       [&] { manager.save(2, state); });
    manager.save(2, state, {.overwrite = true});
  });
  go([](auto& manager, auto& state, double&) {
    EXPECT_EQ(manager.restore_latest(state)->step, 2);
    manager.save(3, state);
  });
  lose_node(0);
  lose_node(1);
  go([](auto& manager, auto& state, double&) {
    EXPECT_EQ(manager.restore_latest(state)->step, 1);
    manager.save(2, state);
    manager.save(3, state);
    EXPECT_EQ(manager.restore_latest(state)->step, 3);
  });
}

TEST_F(TierTest, WhatLostItsProtectionGoesHome) {
  const test::NToMCase one(4, 4, 5);
  save(one, 4, 1);
  lose_node(2);
  EXPECT_EQ(restore(one, 4, 1), 2);
  EXPECT_TRUE(files_->status("/run/ckpt-2.index"));
  for (int node = 0; node < 4; ++node) lose_node(node);
  EXPECT_EQ(restore(one, 4, 1), 2);
}

TEST_F(TierTest, WhatWasBroughtHomeServesWhenAllNodesAreGone) {
  for (unsigned seed = 0; seed < test::rounds(3u); ++seed) {
    for (const int missing : {-1, 2}) {
      files_ = std::make_shared<io::MemoryFileSystem>();
      const test::NToMCase one(4, 3, seed);
      save(one, 4, 1);
      for (int node = 0; node < 4; ++node) {
        if (node == missing) continue;
        const auto done = flush_node({*files_, "/run"}, "/nodes/%n", cat("n", node));
        EXPECT_EQ(done.steps, (std::vector<std::int64_t>{2}));
        EXPECT_EQ(flush_node({*files_, "/run"}, "/nodes/%n", cat("n", node)).files, 0);  // again
      }
      for (int node = 0; node < 4; ++node) lose_node(node);
      EXPECT_EQ(restore(one, 3, 1, 20), 2) << "missing " << missing << " seed " << seed;
      // The save is a checkpoint at home, and its pieces are gone.
      EXPECT_TRUE(files_->status("/run/ckpt-2.index"));
      EXPECT_THAT(find("/run/.cairn/pieces", ""), IsEmpty());
      EXPECT_EQ(restore(one, 3, 3), 2);
    }
  }
  // One node's map is damaged and another's cannot be read: that of a third suffices.
  files_ = std::make_shared<io::MemoryFileSystem>();
  const test::NToMCase some(4, 4, 1);
  save(some, 4, 1);
  flip(find("/nodes/n0", "map").front(), 30);
  files_->inject({Code::io, "read", find("/nodes/n1", "map").front().string(), 0, 1});
  for (int node = 0; node < 4; ++node) {
    const auto done = flush_node({*files_, "/run"}, "/nodes/%n", cat("n", node));
    EXPECT_EQ(done.steps.size(), node < 2 ? 0u : 1u);
    EXPECT_EQ(done.without_map.size(), node < 2 ? 1u : 0u);
  }
  for (int node = 0; node < 4; ++node) lose_node(node);
  EXPECT_EQ(restore(some, 4, 1, 20), 2);

  test::expect_error(Code::not_found, test::Says("this node has nothing"), [&] {
    flush_node({*files_, "/run"}, "/nodes/%n", "n77");
  });
  test::expect_error(Code::not_found, test::Says("belongs to"), [&] {
    flush_node({*files_, "/nodes"}, "/nodes/%n", "n1");
  });
  // A node without a name is the host.
  test::expect_error(Code::not_found, test::Says("this node has nothing"), [&] {
    flush_node({*files_, "/run"}, "/nodes/%n", "");
  });
}

TEST_F(TierTest, ANodeIsTidiedOfWhatNobodyCanAskFor) {
  const test::NToMCase one(4, 4, 5);
  save(one, 4, 1);
  const auto tidy = [&](bool dry_run) { return tidy_node({files_, "/nodes/%n"}, "n1", dry_run); };
  EXPECT_THAT(tidy(false).gone, IsEmpty());
  EXPECT_THAT(tidy(false).left, IsEmpty());

  // A save that died before its map was written is removed, but not while a job may be writing it.
  const auto saves = find("/nodes/n1", tier::map_name).at(0).parent_path().parent_path();
  files_->create_directory(saves / "7-unfinished");
  io::write_file(*files_, saves / "7-unfinished" / "part-1", "some bytes");
  {
    const auto owner = commit::Ownership::take(files_, "/run", 0);
    EXPECT_THAT(tidy(false).left, ElementsAre(test::Says("a job is running in /run")));
    EXPECT_THAT(tidy(false).gone, IsEmpty());
  }
  EXPECT_EQ(tidy(true).gone.at(0).bytes, 10);
  EXPECT_TRUE(files_->status(saves / "7-unfinished"));
  EXPECT_THAT(tidy(false).gone.at(0).why, test::Says("did not finish"));
  EXPECT_FALSE(files_->status(saves / "7-unfinished"));
  // A save with a map was finished, even if the map cannot be read at the moment.
  const auto map = find("/nodes/n1", tier::map_name).at(0);
  const auto text = io::read_file(*files_, map, 1 << 20);
  flip(map, 0);
  EXPECT_THAT(tidy(false).gone, IsEmpty());
  flip(map, 0);
  EXPECT_EQ(io::read_file(*files_, map, 1 << 20), text);
  EXPECT_EQ(restore(one, 4, 1), 2);

  // The run's directory is made again: the data on nodes does not belong to the new one.
  files_->rename("/run", "/moved");
  EXPECT_THAT(tidy(true).gone.at(0).why, test::Says("/run is gone"));
  files_->create_directory("/run");
  EXPECT_THAT(tidy(true).gone.at(0).why, test::Says("another directory"));
  EXPECT_THAT(find("/nodes/n1", "part-"), Not(IsEmpty()));
  // A tidying that ends early leaves the note that tells to which home the rest belongs.
  files_->inject({Code::io, "remove_directory", "/nodes/n1", 0, 1});
  EXPECT_TRUE(test::error_of([&] { tidy(false); }));
  files_->clear_faults();
  EXPECT_THAT(tidy(false).gone, SizeIs(1));
  EXPECT_THAT(files_->list("/nodes/n1"), IsEmpty());
  EXPECT_THAT(find("/nodes/n2", "part-"), Not(IsEmpty()));  // another node's affair
  test::expect_error(Code::not_found, test::Says("nothing was saved on this node"), [&] {
    tidy_node({files_, "/nodes/%n"}, "n77", false);
  });
}

TEST_F(TierTest, AFullNodeOpensWithoutANoteOfItsHome) {
  files_->set_observer([](const std::string& operation) {
    if (operation.find("/.home") != std::string::npos) throw Error(Code::no_space, "it is full");
  });
  const test::NToMCase one(4, 4, 5);
  save(one, 4, 1);
  EXPECT_EQ(restore(one, 4, 1), 2);
  files_->set_observer({});
  EXPECT_THAT(tidy_node({files_, "/nodes/%n"}, "n1", false).left,
              ElementsAre(test::Says("is not noted")));
}

TEST_F(TierTest, WhatFailsLeavesNothing) {
  for (const std::string kind : {"create", "write", "rename"}) {
    for (std::size_t skip = 0; skip < 3; ++skip) {
      files_ = std::make_shared<io::MemoryFileSystem>();
      bool failed = false;
      run_threads(4, [&](std::shared_ptr<Group> group) {
        std::vector<double> values(3000, group->rank());
        State state;
        state.add("x", slice(values.data(), {4, 3000}, {group->rank(), 0}, {1, 3000}));
        CheckpointManager manager(group, "/run", options(group->rank(), 1));
        manager.save(1, state);
        group->barrier();
        if (group->rank() == 0) {
          files_->inject({Code::io, kind, "/nodes/n2", skip, 1});
        }
        group->barrier();
        const auto error = test::error_of([&] { manager.save(2, state); });
        group->barrier();
        if (group->rank() == 0) {
          files_->clear_faults();
          failed = error.has_value();
          if (failed) {
            EXPECT_THAT(find("/nodes", ""), IsEmpty()) << kind << skip;
          }
        }
        group->barrier();
        manager.save(3, state);
        std::fill(values.begin(), values.end(), -1.0);
        const auto report = manager.restore_latest(state);
        ASSERT_TRUE(report);
        EXPECT_EQ(report->step, 3);
        EXPECT_EQ(values, std::vector<double>(3000, group->rank()));
      });
      EXPECT_TRUE(failed || skip > 0) << kind;
    }
  }
}

TEST_F(TierTest, GoesHomeWhereThereIsNoRoom) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    std::vector<double> values(100000, group->rank());
    State state;
    state.add("x", slice(values.data(), {2, 100000}, {group->rank(), 0}, {1, 100000}));
    auto some = options(group->rank(), 1);
    auto small = std::make_shared<io::MemoryFileSystem>();
    small->set_capacity(1 << 20);
    some.tier.file_system = group->rank() == 0 ? small : files_;
    {
      CheckpointManager manager(group, "/run", some);
      manager.save(1, state);
      EXPECT_THAT(manager.save(2, state), Not(HasSubstr("/nodes/")));
    }
    some.tier.when_full = WhenFull::fail;
    CheckpointManager manager(group, "/run", some);
    test::expect_error(Code::no_space, test::Says("does not fit on the nodes"),
                       [&] { manager.save(3, state); });
  });
}

TEST_F(TierTest, RefusesWhatProtectsNothing) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    auto some = options(group->rank(), 1);
    some.tier.directory = "/nodes/all";
    test::expect_error(Code::invalid_argument, test::Says("nodes share the directory"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    // Two memories pretend to be one node.
    some = options(group->rank(), 2);
    if (group->rank() == 1) some.tier.file_system = std::make_shared<io::MemoryFileSystem>();
    test::expect_error(Code::invalid_argument, test::Says("ranks of one node do not share"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    some.tier.directory = "/nodes/%x";
    test::expect_error(Code::invalid_argument, test::Says("stands for nothing"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    some.tier.set_nodes = 1;
    test::expect_error(Code::invalid_argument, HasSubstr("set_nodes"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    if (group->rank() == 1) some.tier.directory = {};
    test::expect_error(Code::disagreement, HasSubstr("tier.directory"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    CheckpointManager manager(group, "/run", some);
    double value = 1;
    State state;
    state.add("x", value);
    manager.save(1, state);
    SaveOptions one;
    one.reach = group->rank() == 0 ? Reach::home : Reach::any;
    test::expect_error(Code::disagreement, HasSubstr("reach"),
                       [&] { manager.save(2, state, one); });
    manager.save(3, state);
    test::expect_error(Code::already_exists, test::Says("on the nodes"),
                       [&] { manager.save(3, state); });
  });
}

TEST_F(TierTest, RowsAndGapsComeBack) {
  run_threads(4, [&](std::shared_ptr<Group> group) {
    const int rank = group->rank();
    std::vector<double> rows(nth(rank * 3), rank);
    std::vector<float> some(5, static_cast<float>(rank));
    State state;
    state.add("rows", ragged(rows));
    state.add("gaps", sparse(rank == 2 ? nothing(DType::float32, {20})
                                       : slice(some.data(), {20}, {5 * rank}, {5}),
                             -1.0f));
    CheckpointManager manager(group, "/run", options(rank, 1));
    manager.save(1, state);
    manager.save(2, state);
  });
  lose_node(3);
  run_threads(4, [&](std::shared_ptr<Group> group) {
    std::vector<double> rows;
    std::vector<float> all(20);
    State state;
    state.add("rows", ragged(rows));
    state.add("gaps", sparse(whole(all.data(), {20}), -1.0f));
    CheckpointManager manager(group, "/run", options(group->rank(), 1));
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 2);
    EXPECT_EQ(
        all, (std::vector<float>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, 3, 3, 3, 3, 3}));
    double sum = 0;
    for (const auto row : rows) sum += row;
    std::int64_t total[]{static_cast<std::int64_t>(sum), static_cast<std::int64_t>(rows.size())};
    group->all_reduce(total, Group::Op::sum);
    EXPECT_EQ(total[0], 3 * 1 + 6 * 2 + 9 * 3);
    EXPECT_EQ(total[1], 18);
  });
}

}  // namespace
}  // namespace cairn
