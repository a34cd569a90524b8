// Managers with a tier: saves on pretended nodes, nodes that vanish with all they have, restarts on
// other ranks and nodes.
#include "cairn/tier.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cairn/ragged.hpp"
#include "cairn/sparse.hpp"
#include "support/group_kit.hpp"
#include "support/memory_run.hpp"
#include "support/n_to_m.hpp"
#include "support/rounds.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tier/place.hpp"
#include "tools/flush_node.hpp"

namespace cairn {
namespace {

using test::SampleState;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::size_t nth(int i) { return static_cast<std::size_t>(i); }

/// A cluster of pretended nodes in one memory: home at /run, node N's disk at /nodes/nN.
class TierTest : public testing::Test {
 protected:
  TierTest() { set_log_sink({}); }

  /// Ranks follow each other, so many a node; `first`: the name of the first node.
  ManagerOptions options(int rank, int ranks_a_node, int first = 0) const {
    ManagerOptions all;
    all.write.file_system = files_;
    all.write.chunk_bytes = 4096;
    all.write.owner_wait_seconds = 0;
    all.tier.directory = "/nodes/%n";
    all.tier.file_system = files_;
    all.tier.node = cat("n", first + rank / ranks_a_node);
    all.tier.protection = protection_;
    all.tier.set_nodes = set_nodes_;
    all.tier.lost_nodes = 2;
    return all;
  }

  void lose(const io::Path& path) {
    if (!files_->status(path)) return;
    for (const auto& name : files_->list(path)) {
      const auto one = path / name;
      if (files_->status(one)->is_directory) {
        lose(one);
      } else {
        files_->remove(one);
      }
    }
    files_->remove_directory(path);
  }
  void lose_node(int node) { lose(cat("/nodes/n", node)); }

  /// Paths under one, whose names contain the text.
  std::vector<io::Path> find(const io::Path& path, const std::string& text) {
    std::vector<io::Path> all;
    if (!files_->status(path)) return all;
    for (const auto& name : files_->list(path)) {
      if (files_->status(path / name)->is_directory) {
        const auto below = find(path / name, text);
        all.insert(all.end(), below.begin(), below.end());
      } else if (name.find(text) != std::string::npos) {
        all.push_back(path / name);
      }
    }
    return all;
  }
  void flip(const io::Path& path, std::int64_t at) {
    const auto file = files_->open_write(path);
    std::byte byte[1];
    file->read_at(at, byte);
    byte[0] ^= std::byte{1};
    file->write_at(at, byte);
  }

  /// Step 1 goes home, step 2 to the nodes.
  void save(const test::NToMCase& one, int ranks, int ranks_a_node) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      SampleState mine(one.seed);
      auto words = one.words;
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        mine.add(one.samples[i], one.held[i][nth(group->rank())], static_cast<int>(one.seed % 3));
      }
      mine.state().add("words", words);
      mine.fill();
      CheckpointManager manager(group, "/run", options(group->rank(), ranks_a_node));
      manager.save(1, mine.state());
      EXPECT_THAT(manager.save(2, mine.state()), HasSubstr("/nodes/n"));
    });
  }
  /// Which step came back on each of so many ranks; bits are compared.
  std::int64_t restore(const test::NToMCase& one, int ranks, int ranks_a_node, int first = 0) {
    std::vector<std::int64_t> steps(nth(ranks), -1);
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      SampleState mine(one.seed);
      std::vector<std::string> words(one.words.size());
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        mine.add(one.samples[i], one.wanted[i][nth(group->rank())],
                 static_cast<int>((one.seed + 1) % 3));
      }
      mine.state().add("words", words);
      mine.poison();
      CheckpointManager manager(group, "/run", options(group->rank(), ranks_a_node, first));
      const auto report = manager.restore_latest(mine.state());
      ASSERT_TRUE(report);
      EXPECT_EQ(mine.check(one.seed), "") << "step " << report->step;
      EXPECT_EQ(words, one.words);
      steps[nth(group->rank())] = report->step;
    });
    EXPECT_EQ(std::count(steps.begin(), steps.end(), steps.front()), ranks);
    return steps.front();
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  Protection protection_ = Protection::parity;
  int set_nodes_ = 4;
};

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
      // What was computed lies on the nodes now.
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
      // Four ranks on six nodes' names: the four that are left.
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
      test::expect_error(Code::data_loss, HasSubstr("cannot be had from the nodes"),
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
  // Nodes 0 and 1 are away; the run goes on from home on others, and saves there.
  EXPECT_EQ(restore(one, 4, 1, 10), 1);
  run_threads(4, [&](std::shared_ptr<Group> group) {
    double value = group->rank();
    State state;
    state.add("x", slice(&value, {4}, {group->rank()}, {1}));
    CheckpointManager manager(group, "/run", options(group->rank(), 1, 10));
    manager.save(3, state);
  });
  // All nodes that there ever were: two of each generation.
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
    test::expect_error(Code::already_exists, HasSubstr("on the nodes"),
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
        const auto done = flush_node(*files_, "/run", "/nodes/%n", cat("n", node));
        EXPECT_EQ(done.steps, (std::vector<std::int64_t>{2}));
        EXPECT_EQ(flush_node(*files_, "/run", "/nodes/%n", cat("n", node)).files, 0);  // again
      }
      for (int node = 0; node < 4; ++node) lose_node(node);
      EXPECT_EQ(restore(one, 3, 1, 20), 2) << "missing " << missing << " seed " << seed;
      // It is a checkpoint now, and the pieces are gone.
      EXPECT_TRUE(files_->status("/run/ckpt-2.index"));
      EXPECT_THAT(find("/run/.cairn/pieces", ""), IsEmpty());
      EXPECT_EQ(restore(one, 3, 3), 2);
    }
  }
  test::expect_error(Code::not_found, HasSubstr("this node has nothing"),
                     [&] { flush_node(*files_, "/run", "/nodes/%n", "n77"); });
  test::expect_error(Code::not_found, HasSubstr("belongs to"),
                     [&] { flush_node(*files_, "/nodes", "/nodes/%n", "n1"); });
  // A node without a name is the host.
  test::expect_error(Code::not_found, HasSubstr("this node has nothing"),
                     [&] { flush_node(*files_, "/run", "/nodes/%n", ""); });
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
          if (failed) EXPECT_THAT(find("/nodes", ""), IsEmpty()) << kind << skip;
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
    test::expect_error(Code::no_space, HasSubstr("does not fit on the nodes"),
                       [&] { manager.save(3, state); });
  });
}

TEST_F(TierTest, RefusesWhatProtectsNothing) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    auto some = options(group->rank(), 1);
    some.tier.directory = "/nodes/all";
    test::expect_error(Code::invalid_argument, HasSubstr("nodes share the directory"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    // Two memories that are said to be one node.
    some = options(group->rank(), 2);
    if (group->rank() == 1) some.tier.file_system = std::make_shared<io::MemoryFileSystem>();
    test::expect_error(Code::invalid_argument, HasSubstr("ranks of one node do not share"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    some.tier.directory = "/nodes/%x";
    test::expect_error(Code::invalid_argument, HasSubstr("stands for nothing"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    some.tier.set_nodes = 1;
    test::expect_error(Code::invalid_argument, HasSubstr("set_nodes"),
                       [&] { CheckpointManager(group, "/run", some); });
    some = options(group->rank(), 1);
    if (group->rank() == 1) some.tier.directory.clear();
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
    test::expect_error(Code::already_exists, HasSubstr("on the nodes"),
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

TEST_F(TierTest, DamageOfTwoKindsIsBorneTogether) {
  // A node has vanished, and what its parts are computed from is damaged, or cannot be read.
  protection_ = Protection::reed_solomon;
  const test::NToMCase one(4, 4, 2);
  for (int other = 0; other < 4; ++other) {
    if (other == 1) continue;
    for (const bool unread : {false, true}) {
      files_ = std::make_shared<io::MemoryFileSystem>();
      save(one, 4, 1);
      lose_node(1);
      const auto parts = find(cat("/nodes/n", other), "part-");
      ASSERT_THAT(parts, SizeIs(1));
      if (unread) {
        files_->inject({Code::io, "read", parts.front().string(), 0, 1});
      } else {
        flip(parts.front(), files_->status(parts.front())->size - 1);
      }
      EXPECT_EQ(restore(one, 4, 1), 2) << "node " << other << " unread " << unread;
    }
  }
}

TEST_F(TierTest, WhatCannotBeReadInOneSetHangsNobodyInAnother) {
  set_nodes_ = 2;  // sets of nodes 0 and 2, of 1 and 3
  const test::NToMCase one(4, 2, 1);
  save(one, 4, 1);
  // Lost parts of each set are computed where parts of the other are.
  lose_node(0);
  lose_node(1);
  const auto parts = find("/nodes/n2", "part-");
  ASSERT_THAT(parts, SizeIs(1));
  files_->inject({Code::io, "read", parts.front().string(), 0, 1000000});
  run_threads(2, [&](std::shared_ptr<Group> group) {
    SampleState mine(one.seed);
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      mine.add(one.samples[i], one.wanted[i][nth(group->rank())], 0);
    }
    mine.poison();
    auto all = options(group->rank(), 1);
    all.tier.node = cat("n", 3 - group->rank());
    CheckpointManager manager(group, "/run", all);
    const auto report = manager.restore_latest(mine.state());
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 1);
    EXPECT_EQ(mine.check(one.seed), "");
  });
}

TEST_F(TierTest, NothingOfAFailedRestoreStays) {
  protection_ = Protection::none;
  const auto go = [&](const std::function<void(CheckpointManager&, int)>& body) {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options(group->rank(), 1));
      body(manager, group->rank());
    });
  };
  std::vector<double> more(200000, 2), x(8, 1);
  go([&](auto& manager, int rank) {
    State state;
    state.add("x", slice(x.data() + 4 * rank, {8}, {4 * rank}, {4}));
    manager.save(1, state);
    manager.save(2, state);
    state.add("more", slice(more.data() + 100000 * rank, {200000}, {100000 * rank}, {100000}));
    manager.save(3, state);
  });
  for (const int node : {0, 1}) {
    for (const auto& path : find(cat("/nodes/n", node), "part-")) {
      const auto size = files_->status(path)->size;
      if (size > 100000) flip(path, size - 1);
    }
  }
  go([&](auto& manager, int rank) {
    std::vector<double> mine(100000, -1), y(4, -1);
    State state;
    state.add("x", slice(y.data(), {8}, {4 * rank}, {4}));
    state.add("more", slice(mine.data(), {200000}, {100000 * rank}, {100000}));
    RestoreOptions some;
    some.all_may_be_missing = true;
    // Step 2 has no "more", which has some of step 3 by now.
    test::expect_error(Code::data_loss, HasSubstr("has no tensor 'more'"),
                       [&] { manager.restore_latest(state, some); });
  });
  // Proved before anything is touched, it leaves nothing.
  go([&](auto& manager, int rank) {
    std::vector<double> mine(100000, -1), y(4, -1);
    State state;
    state.add("x", slice(y.data(), {8}, {4 * rank}, {4}));
    state.add("more", slice(mine.data(), {200000}, {100000 * rank}, {100000}));
    RestoreOptions some;
    some.all_may_be_missing = some.verify_first = true;
    EXPECT_EQ(manager.restore_latest(state, some)->step, 2);
    EXPECT_EQ(y, std::vector<double>(4, 1));
    EXPECT_EQ(mine, std::vector<double>(100000, -1));
  });
}

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

TEST_F(TierTest, PartsOfANodeMayBeInTwoPlaces) {
  // Some of its parts on the node, all of them brought home; and another node is away.
  const test::NToMCase one(6, 6, 2);
  save(one, 6, 2);
  flush_node(*files_, "/run", "/nodes/%n", "n1");
  const auto parts = find("/nodes/n1", "part-");
  ASSERT_THAT(parts, SizeIs(2));
  files_->remove(parts.front());
  lose_node(2);
  EXPECT_EQ(restore(one, 6, 2), 2);
}

TEST_F(TierTest, WhatCannotBeHadTakesNobodysPlace) {
  const auto go = [&](int first, const std::function<void(CheckpointManager&, State&)>& body) {
    run_threads(3, [&](std::shared_ptr<Group> group) {
      double value = group->rank();
      State state;
      state.add("x", slice(&value, {3}, {group->rank()}, {1}));
      CheckpointManager manager(group, "/run", options(group->rank(), 1, first));
      body(manager, state);
    });
  };
  go(0, [](auto& manager, auto& state) {
    for (int step = 1; step <= 3; ++step) manager.save(step, state);
  });
  // Step 3 has lost too much, step 2 is whole.
  for (const int node : {1, 2}) {
    const auto maps = find(cat("/nodes/n", node), "map");
    ASSERT_THAT(maps, SizeIs(2));
    const auto newest = tier::decode_map(io::read_file(*files_, maps[0], 10000)).step == 3 ? 0 : 1;
    lose(maps[nth(newest)].parent_path());
  }
  go(0, [](auto& manager, auto& state) {
    EXPECT_EQ(manager.restore_latest(state)->step, 2);
    manager.save(4, state);
  });
  for (const int node : {1, 2}) {
    const auto maps = find(cat("/nodes/n", node), "map");
    ASSERT_THAT(maps, SizeIs(2));
    const auto newest = tier::decode_map(io::read_file(*files_, maps[0], 10000)).step == 4 ? 0 : 1;
    lose(maps[nth(newest)].parent_path());
  }
  go(0, [](auto& manager, auto& state) { EXPECT_EQ(manager.restore_latest(state)->step, 2); });
}

TEST_F(TierTest, PrivateItemsAreDealtToOtherRanks) {
  const auto go = [&](int ranks, int first, const std::function<void(CheckpointManager&, int)>& body) {
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

TEST_F(TierTest, ALookAtAnOlderOneLeavesTheNewest) {
  const auto go = [&](const std::function<void(CheckpointManager&, State&)>& body) {
    run_threads(3, [&](std::shared_ptr<Group> group) {
      double value = group->rank();
      State state;
      state.add("x", slice(&value, {3}, {group->rank()}, {1}));
      CheckpointManager manager(group, "/run", options(group->rank(), 1));
      body(manager, state);
    });
  };
  go([](auto& manager, auto& state) {
    for (int step = 1; step <= 3; ++step) manager.save(step, state);
  });
  lose_node(1);
  go([](auto& manager, auto& state) { EXPECT_EQ(manager.restore(2, state).step, 2); });
  go([](auto& manager, auto& state) { EXPECT_EQ(manager.restore_latest(state)->step, 3); });
  go([](auto& manager, auto& state) { EXPECT_EQ(manager.restore_latest(state)->step, 3); });
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

TEST_F(TierTest, StrangeFilesAreNoneOfItsBusiness) {
  const test::NToMCase one(4, 4, 1);
  save(one, 4, 1);
  const auto home = io::Path("/nodes/n1") / files_->list("/nodes/n1").front();
  files_->create_directory(home / "7-strange");
  files_->create_directory(home / "7-strange" / "map");
  io::write_file(*files_, home / "file", "x");
  const auto folder = find("/nodes/n2", "map").front().parent_path();
  files_->create_directory(folder / "part-3");
  files_->create_directory(folder / "deeper");
  EXPECT_EQ(restore(one, 4, 1), 2);
  // A folder that cannot be listed counts as lost.
  files_->inject({Code::io, "list", folder.string(), 0, 1});
  EXPECT_EQ(restore(one, 4, 1), 2);
}

}  // namespace
}  // namespace cairn
