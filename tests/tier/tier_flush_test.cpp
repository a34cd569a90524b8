// Saves on the nodes that go home while the application goes on.
#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "cairn/background.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/ragged.hpp"
#include "cairn/sparse.hpp"
#include "cairn/version.hpp"
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

constexpr std::int64_t no_limit = std::int64_t{1} << 50;
/// So slow that it goes on until somebody waits for it, or it gives way: of each rank's bytes the
/// first MiB is written, and then nothing for days.
constexpr std::int64_t hardly = 4;
constexpr std::int64_t row_length = 300'000;

// Those that this build can write.
std::vector<Format> formats_of_home() {
  for (const auto& [name, value] : build_options()) {
    if (name == "hdf5" && value == "no") return {Format::bundle};
  }
  return {Format::bundle, Format::hdf5};
}

class TierFlushTest : public TierTest {
 protected:
  struct Rank {
    Rank(std::shared_ptr<Group> group, const ManagerOptions& options)
        : group(group), manager(group, "/run", options), row(nth(row_length)) {
      state.add("row", slice(row.data(), {group->size(), row_length}, {group->rank(), 0},
                             {1, row_length}));
      state.add("stamp", stamp);
    }
    std::string save(std::int64_t step, const SaveOptions& some = {}) {
      stamp = step;
      std::fill(row.begin(), row.end(), static_cast<double>(10 * step + group->rank()));
      return manager.save(step, state, some);
    }
    std::int64_t restore() {
      std::fill(row.begin(), row.end(), -1.0);
      const auto report = manager.restore_latest(state);
      if (!report) return 0;
      EXPECT_EQ(report->step, stamp);
      EXPECT_EQ(std::count(row.begin(), row.end(), static_cast<double>(10 * stamp + group->rank())),
                row_length);
      return report->step;
    }
    /// "STEP" with "n" on the nodes and "h" at home; "!" is the newest, "-" superseded.
    std::string steps() {
      std::string text;
      for (const auto& one : manager.steps()) {
        text += cat(text.empty() ? "" : " ", one.step, one.on_nodes ? "n" : "",
                    one.at_home ? "h" : "", one.newest ? "!" : "", one.superseded ? "-" : "");
      }
      return text;
    }

    std::shared_ptr<Group> group;
    CheckpointManager manager;
    std::vector<double> row;
    std::int64_t stamp = 0;
    State state;
  };

  void go(std::int64_t limit, const std::function<void(Rank&)>& body, int ranks = 2,
          Format format = Format::bundle) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      auto some = options(group->rank(), 1);
      some.tier.home_every = 3;
      some.tier.flush_bytes_per_second = limit;
      some.store.format = format;
      Rank rank(group, some);
      body(rank);
    });
  }
  void lose_nodes() {
    for (int node = 0; node < 4; ++node) lose_node(node);
  }
  /// Collects what the log is told.
  void listen() {
    set_log_sink([this](LogLevel, std::string_view message) {
      const std::lock_guard guard(mutex_);
      said_.emplace_back(message);
    });
  }
  std::int64_t times_said(const std::string& text) {
    const std::lock_guard guard(mutex_);
    return std::count_if(said_.begin(), said_.end(),
                         [&](const auto& one) { return one.find(text) != std::string::npos; });
  }

  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(TierFlushTest, GoesHomeMeanwhile) {
  for (const auto format : formats_of_home()) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    go(
        no_limit,
        [](Rank& rank) {
          rank.save(1);
          for (int step = 2; step <= 4; ++step) {
            EXPECT_THAT(rank.save(step), HasSubstr("/nodes/"));
          }
          rank.manager.wait();
          EXPECT_EQ(rank.steps(), "1h 3n 4nh!");
          for (int step = 5; step <= 6; ++step) rank.save(step);
          EXPECT_EQ(rank.steps(), "1h 4h 5n 6n!");
          EXPECT_EQ(rank.restore(), 6);
        },
        4, format);
    lose_nodes();
    go(
        no_limit,
        [](Rank& rank) {
          EXPECT_EQ(rank.restore(), 4);
          EXPECT_EQ(rank.steps(), "1h 4h!");
        },
        4, format);
  }
}

TEST_F(TierFlushTest, NobodyWaitsForIt) {
  go(hardly, [&](Rank& rank) {
    for (int step = 1; step <= 4; ++step) rank.save(step);
    // One at a time: the next ones that are due find it under way, and its save stays.
    for (int step = 5; step <= 9; ++step) {
      EXPECT_THAT(rank.save(step), HasSubstr("/nodes/"));
      EXPECT_TRUE(rank.manager.poll());
    }
    EXPECT_EQ(rank.steps(), "1h 4n 8n 9n!");
    const auto before = rank.manager.statistics();
    EXPECT_EQ(before.on_nodes, 8);
    EXPECT_EQ(before.committed, 9);
    const auto& last = before.last.back();
    EXPECT_EQ(last.step, 9);
    EXPECT_TRUE(last.on_nodes);
    EXPECT_GT(last.bytes, 2 * row_length * 8);
    EXPECT_GT(last.seconds.protect, 0);
    EXPECT_LE(last.seconds.sum(), last.blocked_seconds * 1.000001);
    EXPECT_GT(before.since_home_seconds, before.since_save_seconds);
    rank.manager.wait();
    const auto after = rank.manager.statistics();
    EXPECT_EQ(after.committed, 10);
    EXPECT_FALSE(after.last.back().on_nodes);
    EXPECT_EQ(after.last.back().step, 4);
    EXPECT_EQ(rank.steps(), "1h 4nh 8n 9n!");
    // What had come due meanwhile is the newest, with the next save.
    rank.save(10);
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), "1h 4h 9n 10nh!");
  });
}

TEST_F(TierFlushTest, GoesHomeWhenAskedTo) {
  // With and without a flush of its own accord, and while that one is under way.
  for (const auto limit : {std::int64_t{0}, hardly, no_limit}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    go(limit, [&](Rank& rank) {
      rank.save(1);
      rank.save(2);
      rank.manager.wait();
      EXPECT_EQ(rank.steps(), "1h 2n!");
      rank.manager.wait(Reach::home);
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
  // Six ranks on two nodes; of the third layout one node has no io rank, and its first rank goes.
  // The stamp has a file of its own.
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
    test::expect_error(Code::disagreement, HasSubstr("the reach"), [&] {
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

// A step that is brought home because it is to stay is no step of the run.
TEST_F(TierFlushTest, APinLeavesTheRunWhereItIs) {
  const auto fresh = [&](auto body) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    go(0, body);
  };
  // Of an older one than the newest at home, which does not know that this one was before it.
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
  // Of one that a restore has left behind.
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

// Nor does retention take it in between.
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

TEST_F(TierFlushTest, GivesWay) {
  go(hardly, [&](Rank& rank) {
    for (int step = 1; step <= 4; ++step) rank.save(step);
    EXPECT_THAT(rank.save(5, {.reach = Reach::home}), Not(HasSubstr("/nodes/")));
    EXPECT_EQ(rank.steps(), "1h 3n 4n 5h!");
    rank.manager.wait();
    rank.save(6);
    rank.save(7);
    rank.save(8);  // the third
    EXPECT_EQ(rank.restore(), 8);
    EXPECT_EQ(rank.manager.restore(1, rank.state).step, 1);
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), "1h 5h 7n 8n!");
  });
  EXPECT_THAT(find("/run", "ckpt-4"), IsEmpty());
  EXPECT_THAT(find("/run", "ckpt-8"), IsEmpty());
}

TEST_F(TierFlushTest, TheEndOfAManagerCompletesIt) {
  go(hardly, [](Rank& rank) {
    for (int step = 1; step <= 5; ++step) rank.save(step);
  });
  go(hardly, [](Rank& rank) {
    EXPECT_EQ(rank.steps(), "1h 4nh 5n!");
    EXPECT_EQ(rank.restore(), 5);
  });
  lose_nodes();
  go(hardly, [](Rank& rank) { EXPECT_EQ(rank.restore(), 4); });
}

TEST_F(TierFlushTest, WhatFailsIsSaidOnceAndTriedAgain) {
  listen();
  go(no_limit, [&](Rank& rank) {
    for (int step = 1; step <= 3; ++step) rank.save(step);
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->inject({Code::io, "write", "/run", 0, 1'000'000});
    rank.group->barrier();
    for (int step = 4; step <= 6; ++step) {
      EXPECT_THAT(rank.save(step), HasSubstr("/nodes/"));
      rank.manager.wait();
    }
    EXPECT_EQ(rank.steps(), "1h 5n 6n!");
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->clear_faults();
    rank.group->barrier();
    rank.save(7);
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), "1h 6n 7nh!");
  });
  EXPECT_EQ(times_said("stays on the nodes"), 1);
}

TEST_F(TierFlushTest, DamagedPartsDoNotGoHome) {
  listen();
  go(hardly, [&](Rank& rank) {
    for (int step = 1; step <= 4; ++step) rank.save(step);
    rank.group->barrier();
    if (rank.group->rank() == 0) {
      for (const auto& path : find("/nodes/n1", "part-")) {
        flip(path, files_->status(path)->size - 1000);
      }
    }
    rank.group->barrier();
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), "1h 3n 4n!");
    rank.save(5);
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), "1h 4n 5nh!");
  });
  EXPECT_EQ(times_said("stays on the nodes"), 1);
}

TEST_F(TierFlushTest, WhatWasLeftBehindAtHomeStaysBehind) {
  const auto left_behind = [&](auto body) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    go(no_limit, [&](Rank& rank) {
      for (int step = 1; step <= 4; ++step) rank.save(step);
      rank.manager.wait();  // step 4 is home
      EXPECT_EQ(rank.manager.restore(1, rank.state).step, 1);
      rank.save(2);
      rank.save(3);
      rank.save(4);  // another 4, which was due, too, and is home
      rank.manager.wait();
      EXPECT_EQ(rank.steps(), "1h 3n 4nh!");
      EXPECT_EQ(rank.manager.restore(1, rank.state).step, 1);
      for (int step = 2; step <= 3; ++step) rank.save(step);
      body(rank);
    });
  };
  left_behind([](Rank& rank) {
    rank.save(5);
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), "1h 4h- 3n 5nh!");
    rank.save(4, {.overwrite = false});
  });
  left_behind([](Rank& rank) {
    rank.save(5, {.reach = Reach::home});
    EXPECT_EQ(rank.steps(), "1h 4h- 2n 3n 5h!");
  });
}

TEST_F(TierFlushTest, ADamagedOneAtHomeIsPassedOverForTheNodes) {
  go(no_limit, [](Rank& rank) {
    for (int step = 1; step <= 3; ++step) rank.save(step);
    rank.save(4, {.reach = Reach::home});
  });
  for (const auto& path : find("/run", "ckpt-4.data")) flip(path, files_->status(path)->size / 2);
  go(no_limit, [](Rank& rank) { EXPECT_EQ(rank.restore(), 3); });
}

TEST_F(TierFlushTest, AnyStateGoesHome) {
  for (const auto format : formats_of_home()) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    const auto manage = [&](int ranks, int first, const auto& body) {
      run_threads(ranks, [&](std::shared_ptr<Group> group) {
        auto some = options(group->rank(), 1, first);
        some.tier.home_every = 1;
        some.tier.flush_bytes_per_second = no_limit;
        some.store.format = format;
        CheckpointManager manager(group, "/run", some);
        body(manager, *group);
      });
    };
    const test::NToMCase one(4, 3, 2);
    manage(4, 0, [&](CheckpointManager& manager, Group& group) {
      SampleState mine(one.seed);
      auto words = one.words;
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        mine.add(one.samples[i], one.held[i][nth(group.rank())], 1);
      }
      std::vector<double> rows(nth(group.rank() * 3), group.rank());
      std::vector<float> gaps(5, static_cast<float>(group.rank()));
      double private_one = group.rank();
      mine.state().add("words", words);
      mine.state().add("rows", ragged(rows));
      mine.state().add("private", rank_private(private_one, {.optional = true}));
      mine.state().add("gaps",
                       sparse(group.rank() == 2 ? nothing(DType::float32, {20})
                                                : slice(gaps.data(), {20}, {5 * group.rank()}, {5}),
                              -1.0f));
      mine.fill();
      manager.save(1, mine.state());
      manager.save(2, mine.state(), {.metric = 2.5});
      manager.wait();
      EXPECT_EQ(manager.steps().back().metric, 2.5);
    });
    lose_nodes();
    manage(3, 10, [&](CheckpointManager& manager, Group& group) {
      SampleState mine(one.seed);
      std::vector<std::string> words(one.words.size());
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        mine.add(one.samples[i], one.wanted[i][nth(group.rank())], 2);
      }
      std::vector<double> rows;
      std::vector<float> gaps(20);
      mine.state().add("words", words);
      mine.state().add("rows", ragged(rows));
      mine.state().add("gaps", sparse(whole(gaps.data(), {20}), -1.0f));
      mine.poison();
      const auto report = manager.restore_latest(mine.state());
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, 2);
      EXPECT_EQ(mine.check(one.seed), "");
      EXPECT_EQ(words, one.words);
      EXPECT_EQ(gaps, (std::vector<float>{0,  0,  0,  0,  0,  1, 1, 1, 1, 1,
                                          -1, -1, -1, -1, -1, 3, 3, 3, 3, 3}));
      std::int64_t count[]{static_cast<std::int64_t>(rows.size())};
      group.all_reduce(count, Group::Op::sum);
      EXPECT_EQ(count[0], 18);
    });
  }
}

}  // namespace
}  // namespace cairn
