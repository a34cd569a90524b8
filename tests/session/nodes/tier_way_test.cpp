// Which saves go to the nodes, and to which nodes.
#include <gmock/gmock.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/ragged.hpp"
#include "io/temporary_directory.hpp"
#include "session/nodes/tier_kit.hpp"
#include "store/nodes/flush_node.hpp"
#include "store/nodes/place.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/node_saves.hpp"

namespace cairn {
namespace {

using test::nth;
using test::SampleState;
using test::TierTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST_F(TierTest, ASavePendingIsNoParentOfLaterOnes) {
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
  auto maps = tier::list_maps({*files_, io::Path("/nodes/n0") / homes.front() / "ckpt"});
  std::sort(maps.begin(), maps.end(), [](auto& a, auto& b) { return a.sequence < b.sequence; });
  ASSERT_THAT(maps, SizeIs(5));
  for (std::size_t i = 1; i < maps.size(); ++i) {
    EXPECT_EQ(maps[i].parent, maps[i - 1].sequence) << "step " << maps[i].step;
  }
}

// A save on the nodes writes the state in the call, with Until::released, too.
TEST_F(TierTest, NothingStaysToBeReleased) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    std::vector<double> values(3000, 1);
    State state;
    state.add("x", slice(values.data(), {2, 3000}, {group->rank(), 0}, {1, 3000}));
    CheckpointManager manager(group, "/run", options(group->rank(), 1));
    manager.save(1, state);
    values.assign(3000, 2);
    const auto save = manager.save_async(2, state, {.until = Until::released});
    EXPECT_THAT(save.prefix(), HasSubstr("/nodes/"));
    values.assign(3000, -1);
    save.release();
    manager.restore(2, state);
    EXPECT_EQ(values, std::vector<double>(3000, 2));
  });
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

TEST_F(TierTest, EachNameIsByItself) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    double value = 0;
    State state;
    state.add("x", slice(&value, {2}, {group->rank()}, {1}));
    const auto named = [&](const std::string& name) {
      auto some = options(group->rank(), 1);
      some.name = name;
      return some;
    };
    for (const auto& [name, first] : {std::pair{"a", 10}, {"b", 20}}) {
      CheckpointManager manager(group, "/run", named(name));
      for (int step = 1; step <= 4; ++step) {
        value = 100 * (first + step) + group->rank();
        manager.save(first + step, state);
      }
    }
    for (const auto& [name, first] : {std::pair{"a", 10}, {"b", 20}}) {
      CheckpointManager manager(group, "/run", named(name));
      EXPECT_EQ(manager.restore_latest(state)->step, first + 4) << name;
      EXPECT_EQ(value, 100 * (first + 4) + group->rank()) << name;
    }
  });
  // So is what is brought home.
  for (int node = 0; node < 2; ++node) {
    const auto done = flush_node({*files_, "/run"}, "/nodes/%n", cat("n", node));
    EXPECT_EQ(done.steps, (std::vector<std::int64_t>{14, 13, 24, 23}));
    lose_node(node);
  }
  run_threads(2, [&](std::shared_ptr<Group> group) {
    double value = 0;
    State state;
    state.add("x", slice(&value, {2}, {group->rank()}, {1}));
    auto some = options(group->rank(), 1);
    some.name = "a";
    CheckpointManager manager(group, "/run", some);
    EXPECT_EQ(manager.restore_latest(state)->step, 14);
    EXPECT_EQ(value, 1400 + group->rank());
  });
}

TEST_F(TierTest, AHomeSaveThatFailsBehindTheBackIsMadeUpFor) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    double value = group->rank();
    State state;
    state.add("x", slice(&value, {2}, {group->rank()}, {1}));
    CheckpointManager manager(group, "/run", options(group->rank(), 1));
    group->barrier();
    if (group->rank() == 0) files_->inject({Code::io, "", "ckpt-1", 0, 1000});
    group->barrier();
    EXPECT_TRUE(test::error_of([&] {
      manager.save_async(1, state);
      manager.wait();
    }));
    group->barrier();
    if (group->rank() == 0) files_->clear_faults();
    group->barrier();
    EXPECT_THAT(manager.save(2, state), Not(HasSubstr("/nodes/")));  // there is none at home yet
    EXPECT_THAT(manager.save(3, state), HasSubstr("/nodes/"));
  });
}

TEST_F(TierTest, AReaderComputesNothing) {
  const test::NToMCase one(4, 4, 5);
  save(one, 4, 1);
  lose_node(2);
  const auto before = find("/nodes", "");
  run_threads(4, [&](std::shared_ptr<Group> group) {
    SampleState mine(one.seed);
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      mine.add(one.samples[i], one.wanted[i][nth(group->rank())], 0);
    }
    auto reads = options(group->rank(), 1);
    reads.read_only = true;
    CheckpointManager manager(group, "/run", reads);
    const auto report = manager.restore_latest(mine.state());
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 1);
    ASSERT_THAT(report->skipped, SizeIs(1));
    EXPECT_THAT(report->skipped[0], HasSubstr("read-only"));
  });
  EXPECT_EQ(find("/nodes", ""), before);
}

TEST_F(TierTest, APowerFailureBringsNoWithdrawnSaveBack) {
  run_threads(4, [&](std::shared_ptr<Group> group) {
    std::vector<double> values(3000, 1.0 + group->rank());
    State state;
    state.add("x", slice(values.data(), {4, 3000}, {group->rank(), 0}, {1, 3000}));
    auto some = options(group->rank(), 1);
    some.tier.sync = true;
    CheckpointManager manager(group, "/run", some);
    manager.save(1, state);
    group->barrier();
    // Three nodes have their maps by then, or get them: that is enough to compute the fourth.
    if (group->rank() == 0) files_->inject({Code::io, "rename", "/nodes/n2", 0, 1});
    group->barrier();
    std::fill(values.begin(), values.end(), 50.0 + group->rank());
    EXPECT_TRUE(test::error_of([&] { manager.save(2, state); }));
  });
  for (const bool keep : {true, false}) {
    const auto disk = files_->crash(files_->operation_count(), {.keep = keep});
    run_threads(4, [&](std::shared_ptr<Group> group) {
      std::vector<double> values(3000);
      State state;
      state.add("x", slice(values.data(), {4, 3000}, {group->rank(), 0}, {1, 3000}));
      auto some = options(group->rank(), 1);
      some.write.file_system = some.tier.file_system = disk;
      CheckpointManager manager(group, "/run", some);
      EXPECT_EQ(manager.restore_latest(state)->step, 1) << keep;
      EXPECT_EQ(values, std::vector<double>(3000, 1.0 + group->rank()));
    });
  }
}

TEST_F(TierTest, WhatARunHasLeftBehindComesNotBack) {
  protection_ = Protection::none;
  const auto go = [&](const std::function<void(CheckpointManager&, State&, double&)>& body) {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      double value = group->rank();
      State state;
      state.add("x", slice(&value, {2}, {group->rank()}, {1}));
      CheckpointManager manager(group, "/run", options(group->rank(), 1));
      body(manager, state, value);
    });
  };
  go([](auto& manager, auto& state, double&) {
    for (int step = 1; step <= 3; ++step) manager.save(step, state);
  });
  std::vector<std::pair<io::Path, std::string>> old;
  for (const auto& path : find("/nodes", "")) {
    old.emplace_back(path, io::read_file(*files_, path, 1 << 20));
  }
  go([](auto& manager, auto& state, double& value) {
    EXPECT_EQ(manager.restore(1, state).step, 1);
    EXPECT_EQ(manager.restore_latest(state)->step, 3);  // a look leaves nothing behind
    EXPECT_EQ(manager.restore(1, state).step, 1);
    value = 77;
    manager.save(4, state);
    EXPECT_EQ(manager.restore_latest(state)->step, 4);
  });
  // What was removed is there again, as on nodes that were away; and the newest step is damaged.
  const auto parts = find("/nodes/n1", "part-");
  ASSERT_THAT(parts, SizeIs(1));
  flip(parts[0], 70);
  for (const auto& [path, bytes] : old) {
    io::create_directories(*files_, path.parent_path());
    io::write_file(*files_, path, bytes);
  }
  go([](auto& manager, auto& state, double&) {
    EXPECT_EQ(manager.restore_latest(state)->step, 1);
    EXPECT_EQ(manager.restore(3, state).step, 3);  // whoever asks for it
  });
}

TEST_F(TierTest, OneProcessSeesWhatNodesHave) {
  const test::NToMCase one(4, 4, 1);
  save(one, 4, 1);
  const auto see = [&](std::vector<std::string> nodes) {
    const auto all = node_saves({*files_, "/run"}, "/nodes/%n", nodes);
    EXPECT_THAT(all, SizeIs(1));
    return all.empty() ? NodeSave() : all.front();
  };
  auto seen = see({"n1"});
  EXPECT_EQ(seen.name, "ckpt");
  EXPECT_EQ(seen.step, 2);
  EXPECT_EQ(seen.nodes, 4);
  EXPECT_EQ(seen.nodes_seen, 1);
  EXPECT_EQ(seen.margin, -1);
  EXPECT_GT(seen.time, 1.7e9);
  EXPECT_GT(seen.write_seconds, 0);
  EXPECT_GT(seen.protect_seconds, 0);
  EXPECT_EQ(see({"n0", "n1", "n2"}).margin, 0);
  EXPECT_EQ(see({"n0", "n1", "n2", "n3"}).margin, 1);
  flush_node({*files_, "/run"}, "/nodes/%n", "n3");
  seen = see({"n0", "n1"});
  EXPECT_EQ(seen.nodes_seen, 3);
  EXPECT_EQ(seen.nodes_brought, 1);
  EXPECT_EQ(seen.margin, 0);
  EXPECT_THAT(node_saves({*files_, "/nodes"}, "/nodes/%n", {"n1"}), IsEmpty());

  EXPECT_EQ(verify_node_saves({*files_, "/run"}, "/nodes/%n", {"n1", "n2"}).parts, 3);
  const auto part = find("/nodes/n2", "part-").front();
  flip(part, files_->status(part)->size - 1);
  const auto proof = verify_node_saves({*files_, "/run"}, "/nodes/%n", {"n1", "n2"});
  EXPECT_EQ(proof.parts, 2);
  ASSERT_THAT(proof.damage, SizeIs(1));
  EXPECT_EQ(proof.damage.front().path, part);
  EXPECT_THAT(proof.damage.front().why, HasSubstr("checksum"));
}

TEST_F(TierTest, SavesAreCountedOverRestarts) {
  std::vector<bool> home;
  for (int job = 0; job < 4; ++job) {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      double value = group->rank();
      State state;
      state.add("x", slice(&value, {2}, {group->rank()}, {1}));
      auto some = options(group->rank(), 1);
      some.tier.home_every = 4;
      CheckpointManager manager(group, "/run", some);
      manager.restore_latest(state);
      for (int step = 3 * job + 1; step <= 3 * job + 3; ++step) {
        const auto prefix = manager.save(step, state);
        if (group->rank() == 0) home.push_back(prefix.find("/nodes/") == std::string::npos);
      }
    });
  }
  EXPECT_EQ(home, (std::vector<bool>{true, false, false, false, true, false, false, false, true,
                                     false, false, false}));
}

TEST_F(TierTest, ACopyOfADirectoryIsAnotherOne) {
  const test::NToMCase one(2, 2, 1);
  save(one, 2, 1);
  for (const auto& path : find("/run", "")) {
    const auto to = io::Path("/copy") / path.lexically_relative("/run");
    io::create_directories(*files_, to.parent_path());
    io::copy(*files_, path, to);
  }
  run_threads(2, [&](std::shared_ptr<Group> group) {
    SampleState mine(one.seed);
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      mine.add(one.samples[i], one.wanted[i][nth(group->rank())], 0);
    }
    mine.poison();
    CheckpointManager manager(group, "/copy", options(group->rank(), 1));
    EXPECT_EQ(manager.restore_latest(mine.state())->step, 1);
    EXPECT_EQ(mine.check(one.seed), "");
  });
  EXPECT_THAT(files_->list("/nodes/n0"), SizeIs(2));
  EXPECT_EQ(restore(one, 2, 1), 2);
}

TEST_F(TierTest, FewNodesAreToldOf) {
  std::vector<std::string> said;
  const auto open = [&](int ranks, int a_node, Protection protection) {
    said.clear();
    std::mutex mutex;
    set_log_sink([&](LogLevel, std::string_view message) {
      const std::lock_guard guard(mutex);
      said.emplace_back(message);
    });
    protection_ = protection;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      double value = group->rank();
      State state;
      state.add("x", slice(&value, {ranks}, {group->rank()}, {1}));
      CheckpointManager manager(group, "/run", options(group->rank(), a_node));
      for (int step = 1; step <= 3; ++step) manager.save(step, state, {.overwrite = true});
    });
    set_log_sink({});
    std::erase_if(said, [](const auto& one) { return one.find("saved step") == 0; });
  };
  open(2, 1, Protection::parity);
  EXPECT_THAT(said, IsEmpty());
  open(2, 2, Protection::parity);
  EXPECT_THAT(said, testing::ElementsAre(test::Says("cannot protect itself")));
  open(2, 1, Protection::reed_solomon);
  EXPECT_THAT(said, testing::ElementsAre(test::Says("1 may be lost, not 2")));
}

TEST_F(TierTest, OnlyAnOwnDirectoryIsTaken) {
  const test::TemporaryDirectory temporary;
  const io::Path& place = temporary.path();
  const auto open = [&](const io::Path& tier) {
    auto some = options(0, 1);
    some.write.file_system = nullptr;
    some.tier.file_system = nullptr;
    some.tier.directory = tier;
    CheckpointManager(serial_group(), place / "home", some);
  };
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view message) { said.emplace_back(message); });
  open(place / "tier");
  set_log_sink({});
  EXPECT_THAT(said, testing::Contains(test::Says("on the same disk as")));
  EXPECT_EQ(std::filesystem::status(place / "tier").permissions(),
            std::filesystem::perms::owner_all);
  // Links and a file, where the folder of the tier or of the home is to be.
  const auto home = *std::filesystem::directory_iterator(place / "tier");
  std::filesystem::create_directory(place / "elsewhere");
  std::filesystem::create_directory_symlink(place / "elsewhere", place / "link");
  const auto refused = [&](const io::Path& tier, const std::string& why) {
    test::expect_error(Code::invalid_argument, HasSubstr(why), [&] { open(tier); });
  };
  refused(place / "link", "not this user's own");
  std::filesystem::create_directory(place / "planted");
  std::filesystem::create_directory_symlink(place / "elsewhere",
                                            place / "planted" / home.path().filename());
  refused(place / "planted", "not this user's own");
  EXPECT_TRUE(std::filesystem::is_empty(place / "elsewhere"));
  io::write_file(*io::posix_file_system(), place / "file", "x");
  EXPECT_TRUE(test::error_of([&] { open(place / "file"); }));
  EXPECT_TRUE(test::error_of([&] { open("/proc/no-tier"); }));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  std::filesystem::create_directories(place / "others" / "tier");
  ASSERT_EQ(::chown((place / "others" / "tier").c_str(), 12345, 12345), 0);
  refused(place / "others" / "tier", "not this user's own");
  refused(place / "others" / "tier" / "deeper", "belongs to user 12345");
  // A link that belongs to another user, to a place that this user owns at the moment.
  std::filesystem::create_directories(place / "own" / "deep");
  std::filesystem::create_directory_symlink(place / "own", place / "way");
  open(place / "way" / "deep");
  ASSERT_EQ(::lchown((place / "way").c_str(), 12345, 12345), 0);
  refused(place / "way" / "deep", "belongs to user 12345");
  // A link that belongs to this user, to a place below another user's.
  std::filesystem::create_directory_symlink(place / "others" / "tier" / "deeper", place / "by");
  ASSERT_EQ(::chown((place / "others" / "tier").c_str(), 0, 0), 0);
  std::filesystem::create_directory(place / "others" / "tier" / "deeper");
  open(place / "by" / "deep");
  ASSERT_EQ(::chown((place / "others" / "tier").c_str(), 12345, 12345), 0);
  refused(place / "by" / "deep", "belongs to user 12345");
}

}  // namespace
}  // namespace cairn
