// Messages about full, lost and damaged nodes name the node.
#include <mutex>

#include "session/nodes/node_file.hpp"
#include "store/nodes/place.hpp"
#include "store/nodes/save_map.hpp"
#include "support/says.hpp"
#include "tier_kit.hpp"
#include "tools/node_saves.hpp"

namespace cairn {
namespace {

using test::nth;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class Names : public test::TierTest {
 protected:
  Names() {
    set_log_sink([this](LogLevel level, std::string_view line) {
      const std::lock_guard guard(mutex_);
      if (level != LogLevel::info) said_.emplace_back(line);
    });
  }
  ~Names() override { set_log_sink({}); }

  // One rank a node; the state is one row a rank.
  void job(int ranks, const std::function<void(CheckpointManager&, State&, int rank)>& run,
           const std::function<void(ManagerOptions&, int rank)>& change = nullptr) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      const int rank = group->rank();
      std::vector<double> values(20000, rank);
      State state;
      state.add("x", slice(values.data(), {ranks, 20000}, {rank, 0}, {1, 20000}));
      auto some = options(rank, 1);
      if (change) change(some, rank);
      CheckpointManager manager(group, "/run", some);
      run(manager, state, rank);
    });
  }

  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(Names, AFullNodeIsNamedWithItsPathAndBytesAndOnce) {
  auto small = std::make_shared<io::MemoryFileSystem>();
  small->set_capacity(1 << 20);
  const auto second_is_small = [&](ManagerOptions& some, int rank) {
    if (rank == 1) some.tier.file_system = small;
  };
  job(
      3,
      [](CheckpointManager& manager, State& state, int) {
        for (const int step : {1, 2, 3})
          EXPECT_THAT(manager.save(step, state), Not(HasSubstr("/nodes/")));
      },
      second_is_small);
  EXPECT_THAT(said_, Contains(AllOf(test::Says("there is no room on n1, where /nodes/n1/"),
                                    HasSubstr(" has 1"), test::Says(" and the save takes 1."))));
  const auto of_room = std::count_if(said_.begin(), said_.end(), [](const auto& line) {
    return line.find("there is no room") != line.npos;
  });
  EXPECT_EQ(of_room, 1);
  job(
      3,
      [](CheckpointManager& manager, State& state, int) {
        test::expect_error(Code::no_space, test::Says("there is no room on n1, where /nodes/n1/"),
                           [&] { manager.save(4, state); });
      },
      [&](ManagerOptions& some, int rank) {
        second_is_small(some, rank);
        some.tier.when_full = WhenFull::fail;
      });
}

TEST_F(Names, SharersAreNamedWithThePath) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    auto some = options(group->rank(), 1);
    if (group->rank() > 0) some.tier.directory = "/nodes/all";
    if (group->rank() == 0) some.tier.directory = "/nodes/all";
    test::expect_error(Code::invalid_argument, AllOf(test::Says("n0, n1, n2, all in /nodes/all/")),
                       [&] { CheckpointManager(group, "/run", some); });
  });
}

TEST_F(Names, LostNodesAreNamedAsTheSaveKnewThem) {
  const auto save_twice = [](CheckpointManager& manager, State& state, int) {
    manager.save(1, state);
    manager.save(2, state);
  };
  job(3, save_twice);
  lose_node(1);
  said_.clear();
  job(3, [](CheckpointManager& manager, State& state, int) {
    EXPECT_EQ(manager.restore_latest(state)->step, 2);
  });
  EXPECT_THAT(said_, Contains(test::Says("the parts of 1 of 3 nodes (n1) are computed from")));

  files_ = std::make_shared<io::MemoryFileSystem>();
  job(3, save_twice);
  lose_node(1);
  lose_node(2);
  said_.clear();
  job(3, [](CheckpointManager& manager, State& state, int) {
    const auto report = manager.restore_latest(state);
    EXPECT_EQ(report->step, 1);
    EXPECT_THAT(report->skipped,
                Contains(test::Says("not there, or nothing of it can be used: n1, n2")));
  });
  const Address home(files_, "/run");
  const auto seen = node_saves(home, "/nodes/%n", {"n0", "n1", "n2"});
  ASSERT_FALSE(seen.empty());
  EXPECT_THAT(seen.back().not_seen, ElementsAre("n1", "n2"));
}

// The message names the node that has the wrong bytes, not the one whose data was computed from
// them.
TEST_F(Names, DamagedBytesAreNamedWhereTheyAre) {
  job(4, [](CheckpointManager& manager, State& state, int) {
    manager.save(1, state);
    manager.save(2, state);
  });
  lose_node(3);
  const auto parts = find("/nodes/n1", "part-");
  ASSERT_THAT(parts, SizeIs(1));
  flip(parts.front(), files_->status(parts.front())->size - 100);
  said_.clear();
  job(4, [](CheckpointManager& manager, State& state, int) {
    EXPECT_EQ(manager.restore_latest(state)->step, 1);
  });
  EXPECT_THAT(said_, Contains(test::Says("damaged bytes on n1")));
  EXPECT_THAT(said_, Not(Contains(HasSubstr("new-"))));
  for (const auto& line : said_) EXPECT_THAT(line, Not(test::Says("damaged bytes on n3")));
}

TEST(NodeNames, AreInTheMapAndNeedNotBe) {
  tier::SaveMap map;
  map.uuid = std::string(32, 'a');
  map.node_of = {0, 1};
  map.part_bytes = {1, 2};
  EXPECT_EQ(tier::names_of(tier::decode_map(tier::encode(map)), {0, 1}), "node 0, node 1");
  map.node_names = {"a\"b", "\xff"};
  const auto back = tier::decode_map(tier::encode(map));
  EXPECT_THAT(tier::names_of(back, {0}), "a\"b");
  map.node_names = {"one"};
  EXPECT_THROW(tier::decode_map(tier::encode(map)), Error);
  EXPECT_EQ(tier::some_of({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}),
            "a, b, c, d, e, f, g, h and 2 more");
}

}  // namespace
}  // namespace cairn
