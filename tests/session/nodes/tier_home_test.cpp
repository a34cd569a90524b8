// Saves on the nodes that are brought home on request, and which ranks bring them.
#include <gmock/gmock.h>

#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "session/nodes/flush_kit.hpp"
#include "store/nodes/home_id.hpp"
#include "store/nodes/tidy_node.hpp"
#include "support/forwarding_files.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using test::hardly;
using test::no_limit;
using test::nth;
using test::TierFlushTest;
using testing::HasSubstr;

TEST_F(TierFlushTest, GoesHomeWhenAskedTo) {
  // With and without flushes of its own, and while one of these runs.
  for (const auto limit : {std::int64_t{0}, hardly, no_limit}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    go(limit, [&](Rank& rank) {
      rank.save(1);
      rank.save(2);
      rank.manager.wait();
      EXPECT_EQ(rank.steps(), "1h 2n!");
      rank.manager.wait(Reach::home);
      if (rank.group->rank() == 0) {
        EXPECT_THAT(io::read_file(*files_, "/run/checkpoint", 10000),
                    HasSubstr("model_checkpoint_path: \"ckpt-2\""));
      }
      EXPECT_EQ(rank.steps(), "1h 2nh!");
      rank.manager.wait(Reach::home);  // it is there
      rank.save(3);
      rank.save(4);
      if (limit > 0) {
        rank.save(5);  // begins to go home
      } else {
        rank.save(5, {.reach = Reach::home});
      }
      rank.save(6);
      rank.manager.wait(Reach::home);
    });
    lose_nodes();
    go(limit, [&](Rank& rank) {
      EXPECT_EQ(rank.restore(), 6);
      test::expect_error(Code::not_found, HasSubstr("step 4"), [&] { rank.manager.pin(4); });
    });
  }
}

TEST_F(TierFlushTest, IoRanksBringTheirNodesParts) {
  // Six ranks on two nodes. With the third setting one node has no io rank, and its first rank
  // brings the data home. The stamp has a file of its own.
  for (const auto& [io_ranks, files] : std::vector<std::pair<IoRanks, int>>{
           {IoRanks::everyone(), 7}, {IoRanks::one_a_node(), 3}, {IoRanks::count(1), 3}}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    const auto on_nodes = [&, io_ranks = io_ranks](const std::function<void(Rank&)>& body) {
      run_threads(6, [&](std::shared_ptr<Group> group) {
        auto some = options(group->rank(), 3);
        some.tier.home_every = 3;
        some.tier.flush_bytes_per_second = no_limit;
        some.write.io_ranks = io_ranks;
        Rank rank(group, some);
        body(rank);
      });
    };
    on_nodes([](Rank& rank) {
      for (int step = 1; step <= 4; ++step) rank.save(step);
      rank.manager.wait();
      EXPECT_EQ(rank.steps(), "1h 3n 4nh!");
    });
    EXPECT_EQ(find("/run", "ckpt-4.data-").size(), nth(files));
    lose_nodes();
    on_nodes([](Rank& rank) { EXPECT_EQ(rank.restore(), 4); });
  }
}

TEST_F(TierFlushTest, WhatCannotGoHomeWhenAskedToIsAnError) {
  go(hardly, [&](Rank& rank) {
    rank.save(1);
    rank.save(2);
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->inject({Code::no_space, "write", "/run", 0, 1});
    rank.group->barrier();
    test::expect_error(Code::no_space, testing::_, [&] { rank.manager.wait(Reach::home); });
    EXPECT_EQ(rank.steps(), "1h 2n!");
    rank.manager.wait(Reach::home);
    EXPECT_EQ(rank.steps(), "1h 2nh!");
    test::expect_error(Code::disagreement, test::Says("the reach"), [&] {
      rank.manager.wait(rank.group->rank() == 0 ? Reach::home : Reach::any);
    });
  });
}

TEST_F(TierFlushTest, APinBringsAStepHome) {
  for (const auto limit : {std::int64_t{0}, hardly}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    go(limit, [&](Rank& rank) {
      rank.save(1);
      rank.save(2);
      rank.save(3);
      rank.manager.pin(2);  // not the newest
      EXPECT_EQ(rank.steps(), "1h 2nh 3n!");
      rank.manager.pin(3);
      EXPECT_EQ(rank.steps(), "1h 2nh 3nh!");
      for (const auto& one : rank.manager.steps()) EXPECT_EQ(one.pinned, one.step > 1);
      rank.manager.unpin(3);
    });
    lose_nodes();
    go(limit, [&](Rank& rank) { EXPECT_EQ(rank.restore(), 3); });
  }
}

// A step that is brought home because it is pinned does not change from which step the run
// descends.
TEST_F(TierFlushTest, APinLeavesTheRunWhereItIs) {
  const auto fresh = [&](auto body) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    go(0, body);
  };
  // An older step than the newest at home, which does not know that this one came before it.
  fresh([](Rank& rank) {
    rank.save(1);
    rank.save(2);
    rank.save(3);
    rank.save(4, {.reach = Reach::home});
    rank.manager.pin(3);
    EXPECT_EQ(rank.steps(), "1h 2n 3nh- 4h!");
    rank.save(5);
    rank.save(6, {.reach = Reach::home});
    EXPECT_EQ(rank.steps(), "1h 3nh- 4h 5n 6h!");
    EXPECT_EQ(rank.restore(), 6);
  });
  // A step that a restore has left behind.
  fresh([](Rank& rank) {
    rank.save(1);
    rank.save(2);
    rank.save(3);
    EXPECT_EQ(rank.manager.restore(2, rank.state).step, 2);
    rank.manager.wait(Reach::home);  // 2, which it is now
    rank.manager.pin(3);
    EXPECT_EQ(rank.steps(), "1h 2nh 3nh!");
    rank.save(4);
    EXPECT_EQ(rank.steps(), "1h 2nh 3h 4n!");
  });
  fresh([](Rank& rank) {
    rank.save(1);
    rank.save(2);
    rank.save(3);
    EXPECT_EQ(rank.manager.restore(1, rank.state).step, 1);
    rank.manager.pin(3);
    rank.save(2, {.overwrite = false});
    EXPECT_EQ(rank.steps(), "1h 3h 2n!");
  });
}

// Retention does not remove the step in between either.
TEST_F(TierFlushTest, APinIsBeforeRetention) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    auto some = options(group->rank(), 1);
    some.tier.home_every = 3;
    some.keep.last = 1;
    Rank rank(group, some);
    rank.save(1);
    rank.save(2);
    rank.save(3);
    rank.save(4, {.reach = Reach::home});
    rank.manager.pin(3);
    EXPECT_EQ(rank.steps(), "2n 3nh- 4h!");
    rank.manager.wait();
    rank.save(5, {.reach = Reach::home});
    EXPECT_EQ(rank.steps(), "2n 3nh- 5h!");
  });
}

// A file system that tells when a directory was made, which that in memory does not.
class Telling : public test::ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  std::optional<io::Status> status(const io::Path& path) override {
    auto found = ForwardingFiles::status(path);
    if (found) found->id.made_nanoseconds = 5000 + static_cast<std::int64_t>(found->id.inode);
    return found;
  }
};

TEST_F(TierFlushTest, AHomeIsTheSameOnKernelsThatTellLessOfIt) {
  Telling more(files_);
  for (const bool first_tells : {true, false}) {
    const io::Path home = first_tells ? "/told" : "/untold";
    io::create_directories(*files_, home / ".cairn");
    io::FileSystem& first = first_tells ? static_cast<io::FileSystem&>(more) : *files_;
    const auto id = tier::home_id({first, home}, true);
    EXPECT_EQ(tier::home_id({*files_, home}, false), id);
    EXPECT_EQ(tier::home_id({more, home}, true), id);
  }
  // If both tell the time, another directory with the same number is another home.
  const auto path = io::Path("/told") / ".cairn" / "home-id";
  auto text = io::read_file(*files_, path, 4096);
  text.back() = text.back() == '1' ? '2' : '1';
  io::replace_file(*files_, path, text);
  EXPECT_EQ(tier::home_id({more, "/told"}, false), "");
}

TEST_F(TierFlushTest, AFileSystemThatIsAwayTakesNothingWithIt) {
  files_->create_directory("/mount");
  run_threads(2, [&](std::shared_ptr<Group> group) {
    double value = group->rank();
    State state;
    state.add("x", slice(&value, {2}, {group->rank()}, {1}));
    CheckpointManager manager(group, "/mount/run", options(group->rank(), 1));
    manager.save(1, state);
    manager.save(2, state);
  });
  const auto tidy = [&] { return tidy_node({files_, "/nodes/%n"}, "n1", false); };
  EXPECT_THAT(tidy().gone, testing::IsEmpty());
  files_->rename("/mount", "/elsewhere");
  EXPECT_THAT(tidy().left, testing::ElementsAre(test::Says("may be away")));
  files_->create_directory("/mount");  // on which it is mounted
  EXPECT_THAT(tidy().left, testing::ElementsAre(test::Says("may be away")));
  files_->remove_directory("/mount");
  files_->rename("/elsewhere", "/mount");
  files_->rename("/mount/run", "/mount/other");
  EXPECT_THAT(tidy().gone.at(0).why, test::Says("/mount/run is gone"));
  EXPECT_THAT(find("/nodes/n1", "part-"), testing::IsEmpty());
}

}  // namespace
}  // namespace cairn
