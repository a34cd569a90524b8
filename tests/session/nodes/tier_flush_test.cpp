// Saves on the nodes that are flushed home while the application goes on.
#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "cairn/background.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/ragged.hpp"
#include "cairn/sparse.hpp"
#include "cairn/version.hpp"
#include "session/nodes/flush_kit.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/nodes/place.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using test::hardly;
using test::no_limit;
using test::nth;
using test::row_length;
using test::SampleState;
using test::TierFlushTest;
using test::TierTest;
using testing::HasSubstr;
using testing::IsEmpty;

// The ways to store that this build has.
std::vector<std::pair<Format, StoreCodec>> ways_of_home() {
  for (const auto& [name, value] : build_options()) {
    if (name == "hdf5" && value == "no") return {{Format::bundle, StoreCodec::none}};
  }
  return {{Format::bundle, StoreCodec::none},
          {Format::hdf5, StoreCodec::none},
          {Format::hdf5, StoreCodec::automatic}};
}

TEST_F(TierFlushTest, GoesHomeMeanwhile) {
  for (const auto& way : ways_of_home()) {
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
        4, way.first, way.second);
    lose_nodes();
    go(
        no_limit,
        [](Rank& rank) {
          EXPECT_EQ(rank.restore(), 4);
          EXPECT_EQ(rank.steps(), "1h 4h!");
        },
        4, way.first, way.second);
  }
}

TEST_F(TierFlushTest, NobodyWaitsForIt) {
  go(hardly, [&](Rank& rank) {
    for (int step = 1; step <= 4; ++step) rank.save(step);
    // Flushes run one at a time: saves that come due meanwhile wait, and the save being flushed is
    // kept.
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
    // Of the saves that came due meanwhile, the newest is flushed with the next save.
    rank.save(10);
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), "1h 4h 9n 10nh!");
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

// A copy has a plan of its own, and goes on from what the save before it has learned.
TEST_F(TierFlushTest, ACopyTriesNotToEncode) {
  const auto [format, codec] = ways_of_home().back();
  if (codec == StoreCodec::none) GTEST_SKIP() << "this build has no HDF5";
  const auto body = [](Rank& rank) {
    for (int step = 1; step <= 4; ++step) rank.save(step);
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), "1h 3n 4nh!");
  };
  go(no_limit, body, 2, format, codec);
  const auto encoded = [&](int step) {
    const auto stored = read_contents(*files_, cat("/run/ckpt-", step));
    const auto& pieces = stored.find("row")->slices;
    return std::count_if(pieces.begin(), pieces.end(), [](const auto& piece) {
      return piece.box.count() * 8 == piece.raw_bytes && piece.codec != Codec::none;
    });
  };
  EXPECT_GT(encoded(1), 0);
  EXPECT_EQ(encoded(4), 0);
}

TEST_F(TierFlushTest, AnyStateGoesHome) {
  for (const auto& way : ways_of_home()) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    const auto manage = [&](int ranks, int first, const auto& body) {
      run_threads(ranks, [&](std::shared_ptr<Group> group) {
        auto some = options(group->rank(), 1, first);
        some.tier.home_every = 1;
        some.tier.flush_bytes_per_second = no_limit;
        some.store.format = way.first;
        some.store.codec = way.second;
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
