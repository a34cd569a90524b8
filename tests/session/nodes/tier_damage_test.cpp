// Data on the nodes that is damaged, partly lost, or unreadable.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/ragged.hpp"
#include "session/nodes/node_file.hpp"
#include "session/nodes/tier_kit.hpp"
#include "store/nodes/flush_node.hpp"
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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST_F(TierTest, DamageOfTwoKindsIsBorneTogether) {
  // A node has vanished, and the parts from which its part is computed are damaged or cannot be
  // read.
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

TEST_F(TierTest, NothingIsComputedFromBytesThatNoTensorHas) {
  // Bytes behind a part's record are known to be zeros; a part that is computed from others is then
  // wrong.
  protection_ = Protection::reed_solomon;
  const test::NToMCase one(4, 4, 2);
  save(one, 4, 1);
  lose_node(1);
  const auto path = find("/nodes/n0", "part-").front();
  flip(path, 4095);
  const auto map = io::read_file(*files_, path.parent_path() / tier::map_name, 10000);
  const tier::NodeFile part({*files_, path}, tier::decode_map(map).uuid);  // whose record is whole
  EXPECT_EQ(restore(one, 4, 1), 2);
}

TEST_F(TierTest, WhatHasNoRoomToBeComputedIsPassedOver) {
  const test::NToMCase one(4, 4, 2);
  save(one, 4, 1);
  const auto part = find("/nodes/n2", "part-").front();
  flip(part, files_->status(part)->size - 1);
  for (const auto* kind : {"create", "resize", "write", "rename"}) {
    files_->inject({Code::no_space, kind, "/new-", 0, 1000});
    EXPECT_EQ(restore(one, 4, 1), 1) << kind;
    EXPECT_THAT(find("/nodes", "new-"), IsEmpty()) << kind;
    files_->clear_faults();
  }
  EXPECT_EQ(restore(one, 4, 1), 2);
}

TEST_F(TierTest, DamageOfEachNodeIsComputedBlockByBlock) {
  // One block of each node is damaged, each in another row of the set; a node is lost with any of
  // them.
  const auto state_of = [](int rank, std::vector<double>& mine) {
    State state;
    state.add("x", slice(mine.data(), {4 * 300000}, {300000 * rank}, {300000}));
    return state;
  };
  const auto fill = [](int rank) {
    std::vector<double> mine(300000);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = rank + 1e-3 * static_cast<double>(i);
    return mine;
  };
  const auto go = [&](const std::function<void(CheckpointManager&, int)>& body) {
    run_threads(4, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options(group->rank(), 1));
      body(manager, group->rank());
    });
  };
  struct Damage {
    const char* kind;
    std::int64_t block;  // of 802816 bytes, a third of a part in pages
  };
  for (const auto& [damage, back] : std::vector<std::pair<std::vector<Damage>, std::int64_t>>{
           // Block b of node n is in row (n - 1 - b) mod 4, parity of row r on node r.
           {{{"part-", 1}, {"part-", 1}, {"part-", 1}, {"part-", 1}}, 2},
           {{{"part-", 1}, {"part-", 2}, {"", 0}, {"", 0}}, 1},    // both in row 2
           {{{"part-", 1}, {"", 0}, {"parity-", 0}, {"", 0}}, 1},  // and its parity
           {{{"part-", 1}, {"parity-", 0}, {"part-", 1}, {"part-", 1}}, 1}}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    go([&](auto& manager, int rank) {
      auto mine = fill(rank);
      manager.save(1, state_of(rank, mine));
      manager.save(2, state_of(rank, mine));
    });
    for (int node = 0; node < 4; ++node) {
      const auto& one = damage[test::nth(node)];
      if (!*one.kind) continue;
      const auto files = find(cat("/nodes/n", node), one.kind);
      ASSERT_THAT(files, SizeIs(1));
      flip(files.front(), one.block * 802816 + 400000);
    }
    const auto comes_back = back;
    go([&](auto& manager, int rank) {
      std::vector<double> mine(300000, -1);
      auto state = state_of(rank, mine);
      const auto report = manager.restore_latest(state);
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, comes_back);
      if (comes_back == 2) {
        EXPECT_EQ(manager.steps().back().margin, 1);
      }
      EXPECT_EQ(mine, fill(rank));
    });
    if (comes_back == 1) continue;
    // The part was repaired in place and is protected as before, and the manager knows that.
    EXPECT_THAT(find("/nodes", "new-"), IsEmpty());
    EXPECT_FALSE(files_->status("/run/checkpoint-2.index"));
    lose_node(3);
    go([&](auto& manager, int rank) {
      std::vector<double> mine(300000, -1);
      auto state = state_of(rank, mine);
      EXPECT_EQ(manager.restore_latest(state)->step, 2);
      EXPECT_EQ(mine, fill(rank));
    });
  }
}

TEST_F(TierTest, ANodeThatHasTwoNodesPartsCountsTwice) {
  protection_ = Protection::reed_solomon;
  const test::NToMCase one(4, 3, 1);
  save(one, 4, 1);
  lose_node(1);
  run_threads(3, [&](std::shared_ptr<Group> group) {
    SampleState mine(one.seed);
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      mine.add(one.samples[i], one.wanted[i][test::nth(group->rank())], 0);
    }
    mine.poison();
    auto some = options(group->rank(), 1);
    some.tier.node = cat("n", group->rank() == 0 ? 0 : group->rank() + 1);  // nobody is on node 1
    CheckpointManager manager(group, "/run", some);
    EXPECT_EQ(manager.steps().back().margin, 1);
    group->barrier();
    if (group->rank() == 0) files_->inject({Code::no_space, "write", "/run", 0, 1000});
    group->barrier();
    EXPECT_EQ(manager.restore_latest(mine.state())->step, 2);
    // The save could not go home. Another node has what node 1 had, except its parity: with that
    // node, two would be lost.
    EXPECT_TRUE(manager.steps().back().on_nodes);
    EXPECT_FALSE(manager.steps().back().at_home);
    EXPECT_EQ(manager.steps().back().margin, 0);
  });
}

TEST_F(TierTest, WhatWasMendedOutlivesThePower) {
  const auto go = [&](const std::shared_ptr<io::MemoryFileSystem>& disk,
                      const std::function<void(CheckpointManager&, State&)>& body) {
    run_threads(4, [&](std::shared_ptr<Group> group) {
      std::vector<double> values(3000, 1.0 + group->rank());
      State state;
      state.add("x", slice(values.data(), {4, 3000}, {group->rank(), 0}, {1, 3000}));
      auto some = options(group->rank(), 1);
      some.write.file_system = some.tier.file_system = disk;
      some.tier.sync = true;
      CheckpointManager manager(group, "/run", some);
      body(manager, state);
      EXPECT_EQ(values, std::vector<double>(3000, 1.0 + group->rank()));
    });
  };
  go(files_, [](auto& manager, auto& state) {
    manager.save(1, state);
    manager.save(2, state);
  });
  const auto part = find("/nodes/n1", "part-").front();
  flip(part, files_->status(part)->size - 1);
  go(files_, [](auto& manager, auto& state) { EXPECT_EQ(manager.restore_latest(state)->step, 2); });
  const auto mended = files_;
  for (const bool keep : {true, false}) {
    files_ = mended->crash(mended->operation_count(), {.keep = keep});
    lose_node(2);
    go(files_,
       [](auto& manager, auto& state) { EXPECT_EQ(manager.restore_latest(state)->step, 2); });
  }
}

TEST_F(TierTest, WhatCannotBeReadInOneSetHangsNobodyInAnother) {
  set_nodes_ = 2;  // sets of nodes 0 and 2, of 1 and 3
  const test::NToMCase one(4, 2, 1);
  save(one, 4, 1);
  // What is left of both nodes is on one node, and is copied to another.
  lose_node(0);
  lose_node(1);
  const auto folder = find("/nodes/n2", "map").front().parent_path();
  for (const std::string file : {"part-3", "parity-3"}) {
    io::copy(*files_, find("/nodes/n3", file).front(), folder / file);
  }
  const auto parts = find("/nodes/n2", "parity-2");
  ASSERT_THAT(parts, SizeIs(1));
  files_->inject({Code::io, "read", parts.front().string(), 0, 1000000});
  run_threads(2, [&](std::shared_ptr<Group> group) {
    SampleState mine(one.seed);
    for (std::size_t i = 0; i < one.samples.size(); ++i) {
      mine.add(one.samples[i], one.wanted[i][nth(group->rank())], 0);
    }
    mine.poison();
    auto all = options(group->rank(), 1);
    all.tier.node = group->rank() == 0 ? "n9" : "n2";
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
    // Step 2 has no "more", into which some of step 3 was already read.
    test::expect_error(Code::data_loss, test::Says("has no tensor 'more'"),
                       [&] { manager.restore_latest(state, some); });
  });
  // If everything is verified before memory is touched, nothing of it is left in memory.
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

TEST_F(TierTest, PartsOfANodeMayBeInTwoPlaces) {
  // Some of its parts are on the node, all are at home; and another node is away.
  const test::NToMCase one(6, 6, 2);
  save(one, 6, 2);
  flush_node({*files_, "/run"}, "/nodes/%n", "n1");
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
  // Step 3 has lost too much; step 2 is whole.
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

TEST_F(TierTest, DamagedMapsAndParityAreDoneWithout) {
  const test::NToMCase one(4, 4, 1);
  for (int node = 0; node < 4; ++node) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    save(one, 4, 1);
    flip(find(cat("/nodes/n", node), "map").front(), 30);
    EXPECT_EQ(restore(one, 4, 1), 2) << "map of node " << node;
  }
  // With a second parity, the damaged one is left out; without, the save is passed over, and no
  // wrong byte is restored.
  for (const auto protection : {Protection::reed_solomon, Protection::parity}) {
    protection_ = protection;
    for (int node = 0; node < 4; ++node) {
      for (const bool in_checksums : {false, true}) {
        files_ = std::make_shared<io::MemoryFileSystem>();
        save(one, 4, 1);
        lose_node((node + 1) % 4);
        const auto parity = find(cat("/nodes/n", node), "parity-").front();
        flip(parity, in_checksums ? files_->status(parity)->size - 1 : 0);
        const bool spare = protection == Protection::reed_solomon;
        EXPECT_EQ(restore(one, 4, 1), spare ? 2 : 1) << "node " << node << in_checksums;
      }
    }
  }
}

// A save for which the nodes lack room, and which cannot be withdrawn there, is not made at home
// instead: if that failed too, nobody would learn that a restart may find the first one.
TEST_F(TierTest, WhatStaysOnFullNodesIsToldOf) {
  std::atomic<bool> armed = false, full = false;
  files_->set_observer([&](const std::string& operation) {
    if (armed && operation.find("/map.new") != std::string::npos) full = true;
    if (full) throw Error(Code::no_space, "it is full");
  });
  run_threads(2, [&](std::shared_ptr<Group> group) {
    double value = group->rank();
    State state;
    state.add("x", slice(&value, {2}, {group->rank()}, {1}));
    CheckpointManager manager(group, "/run", options(group->rank(), 1));
    manager.save(1, state);
    group->barrier();
    if (group->rank() == 0) armed = true;
    group->barrier();
    test::expect_error(Code::no_space, test::Says("a restart may still take this one"),
                       [&] { manager.save(2, state); });
    group->barrier();
    if (group->rank() == 0) armed = full = false;
    group->barrier();
    manager.save(3, state);
  });
}

// Paths differ from node to node, so the error that all ranks throw must not have them.
TEST_F(TierTest, AllRanksHearTheSameOfNodes) {
  std::mutex mutex;
  std::map<std::string, std::set<std::string>> heard;
  const auto hear = [&](const std::string& what, const auto& call) {
    const auto error = test::error_of(call);
    const std::lock_guard guard(mutex);
    heard[what].insert(error ? error->what() : "nothing");
  };
  std::atomic<bool> armed = false, broken = false;
  files_->set_observer([&](const std::string& operation) {
    if (armed && operation.find("/map.new") != std::string::npos) broken = true;
    if (broken && operation.find("/nodes/") != std::string::npos) throw Error(Code::io, "it broke");
  });
  run_threads(4, [&](std::shared_ptr<Group> group) {
    std::vector<double> values(100000, group->rank());
    State state;
    state.add("x", slice(values.data(), {4, 100000}, {group->rank(), 0}, {1, 100000}));
    auto some = options(group->rank(), 1);
    some.tier.when_full = WhenFull::fail;
    some.tier.when_lost = WhenLost::fail;
    {
      CheckpointManager manager(group, "/run", some);
      manager.save(1, state);
      group->barrier();
      if (group->rank() == 0) armed = true;
      group->barrier();
      hear("could not be removed", [&] { manager.save(2, state); });
      group->barrier();
      if (group->rank() == 0) armed = broken = false;
      group->barrier();
      manager.save(3, state);
      group->barrier();
    }
    auto small = some;
    auto disk = std::make_shared<io::MemoryFileSystem>();
    disk->set_capacity(1 << 20);
    small.tier.file_system = disk;
    small.tier.directory = "/small/%n";
    {
      CheckpointManager manager(group, "/run", small);
      hear("does not fit", [&] { manager.save(4, state); });
      group->barrier();
    }
    if (group->rank() == 0) lose_node(1), lose_node(2);
    group->barrier();
    some.read_only = true;
    {
      CheckpointManager reader(group, "/run", some);
      hear("does not compute", [&] { reader.restore_latest(state); });
      group->barrier();
    }
    some.read_only = false;
    CheckpointManager manager(group, "/run", some);
    hear("too many are missing", [&] { manager.restore_latest(state); });
  });
  EXPECT_THAT(heard, SizeIs(4));
  for (const auto& [what, texts] : heard) {
    EXPECT_THAT(texts, ElementsAre(HasSubstr(what)));
  }
}

}  // namespace
}  // namespace cairn
