// Io ranks: only they touch data files, the contents of the files do not depend on them, and any
// choice restores what another choice saved.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>

#include "cairn/bundle.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/log.hpp"
#include "cairn/sharded_save.hpp"
#include "session/save/io_ranks_kit.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::on_ranks;
using test::WatchedDisk;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

constexpr int ranks_a_node = 3;

IoRanks choice(unsigned number) {
  auto io = number % 4 == 0   ? IoRanks::everyone()
            : number % 4 == 1 ? IoRanks::one_a_node()
            : number % 4 == 2 ? IoRanks::count(2)
                              : IoRanks::count(1);
  if (number % 3 == 0) io.memory_bytes = 4096;  // one sender at a time
  if (number % 3 == 1) io.memory_bytes = 2 * 4096 + 100;
  io.joined = number % 5 < 2;
  return io;
}

class IoRanksNToM : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(IoRanksNToM, AnyChoiceRestoresWhatAnyOtherSaved) {
  const auto [n, m] = GetParam();
  for (unsigned seed = 0; seed < test::rounds(6u); ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    test::NToMCase one(n, m, seed);
    if (seed % 2 == 1) one.storage = Storage::dense;
    one.asynchronous = seed % 3 != 0;
    auto disk = std::make_shared<WatchedDisk>();
    ManagerOptions saving, restoring;
    saving.write.file_system = restoring.write.file_system = disk;
    saving.write.io_ranks = choice(seed + static_cast<unsigned>(n) + 1);
    restoring.write.io_ranks = choice(seed / 2 + static_cast<unsigned>(m) + 2);
    on_ranks(n, ranks_a_node, [&](auto group) {
      auto mine = saving;
      mine.async.queue = std::make_shared<test::QueueOfRank>();
      one.save(group, "/run", mine);
    });
    EXPECT_THAT(disk->touched(),
                IsSubsetOf(test::io_ranks_of(n, ranks_a_node, saving.write.io_ranks)));
    on_ranks(m, ranks_a_node, [&](auto group) {
      EXPECT_EQ(one.restore(group, "/run", restoring), "") << "rank " << group->rank();
    });
    EXPECT_THAT(disk->touched(),
                IsSubsetOf(test::io_ranks_of(m, ranks_a_node, restoring.write.io_ranks)));
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, IoRanksNToM,
                         ::testing::Combine(::testing::Range(1, 8), ::testing::Range(1, 8)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

TEST(IoRanks, DataFilesAreTheSameBytes) {
  for (const auto storage : {Storage::sliced, Storage::dense}) {
    std::map<std::string, std::string> expected;
    for (unsigned number = 0; number < 12; ++number) {
      test::NToMCase one(7, 1, 5);
      one.storage = storage;
      auto disk = std::make_shared<WatchedDisk>();
      ManagerOptions options;
      options.write.file_system = disk;
      options.store.policy = std::make_shared<MaxShardSizePolicy>(2000);
      options.write.io_ranks = choice(number);
      on_ranks(7, ranks_a_node, [&](auto group) { one.save(group, "/run", options); });
      const auto data = disk->data();
      if (number == 0) expected = data;
      EXPECT_GE(data.size(), storage == Storage::sliced ? 4u : 1u);
      EXPECT_TRUE(data == expected) << "choice " << number;
    }
  }
}

// Each rank has a row of doubles.
struct SavedRows {
  std::vector<double> row = std::vector<double>(3000);
  State state;
  explicit SavedRows(Group& group) {
    state.add("u", slice(row.data(), {group.size(), 3000}, {group.rank(), 0}, {1, 3000}));
  }
  void fill(double value) { std::fill(row.begin(), row.end(), value); }
};

TEST(IoRanks, EveryIoRankHasItsPart) {
  auto disk = std::make_shared<WatchedDisk>();
  ManagerOptions options;
  options.write.file_system = disk;
  options.write.io_ranks = IoRanks::one_a_node();
  on_ranks(6, 2, [&](auto group) {
    SavedRows rows(*group);
    rows.fill(group->rank());
    std::vector<std::string> texts{"a", "", std::string(9000, 'c'), "d"};
    const auto right = texts;
    for (auto& text : texts) rows.state.add(cat("text ", &text - texts.data()), text);
    CheckpointManager manager(group, "/run", options);
    manager.save(1, rows.state);
    group->barrier();
    if (group->rank() == 0) {
      EXPECT_EQ(disk->touched(), (std::set<int>{0, 2, 4}));
    }
    group->barrier();
    rows.fill(-1);
    for (auto& text : texts) text = "wrong";
    manager.restore(1, rows.state);
    EXPECT_EQ(rows.row.back(), group->rank());
    EXPECT_EQ(texts, right);
    group->barrier();
    if (group->rank() == 0) {
      EXPECT_EQ(disk->touched(), (std::set<int>{0, 2, 4}));
    }
  });
}

TEST(IoRanks, InTheBackgroundTheyWriteWhatOthersHadWhenTheSaveBegan) {
  for (const bool joined : {false, true}) {
    auto disk = std::make_shared<WatchedDisk>();
    ManagerOptions options;
    options.write.file_system = disk;
    options.write.io_ranks = IoRanks::one_a_node();
    options.write.io_ranks.joined = joined;
    options.write.chunk_bytes = 4096;  // several frames, most of several tensors
    on_ranks(6, 2, [&](auto group) {
      SavedRows rows(*group);
      std::vector<std::string> texts{"a", "", std::string(9000, 'c'), "d"};
      const auto right = texts;
      for (auto& text : texts) {
        rows.state.add(cat("text ", group->rank(), " ", &text - texts.data()), text);
      }
      auto mine = options;
      mine.async.queue = std::make_shared<test::QueueOfRank>();
      CheckpointManager manager(group, "/run", mine);
      const auto set = [&](int step) {  // as many bytes each time: the plan serves again
        rows.fill(group->rank() + 10 * step);
        texts = right;
        texts[0] = cat(step);
      };
      for (int step = 1; step <= 4; ++step) {
        set(step);
        const auto handle = manager.save_async(step, rows.state);
        EXPECT_EQ(handle.blocked_because(), "");
        rows.fill(-1);
        for (auto& text : texts) text.assign(text.size(), 'x');
        manager.wait();
      }
      EXPECT_TRUE(manager.statistics().last.back().plan_reused);
      group->barrier();
      if (group->rank() == 0) {
        EXPECT_EQ(disk->touched(), (std::set<int>{0, 2, 4}));
      }
      for (int step = 1; step <= 4; ++step) {
        SCOPED_TRACE(step);
        manager.restore(step, rows.state);
        EXPECT_EQ(rows.row.front(), group->rank() + 10 * step);
        EXPECT_EQ(rows.row.back(), group->rank() + 10 * step);
        EXPECT_EQ(texts[0], cat(step));
        EXPECT_TRUE(std::equal(texts.begin() + 1, texts.end(), right.begin() + 1));
      }
    });
  }
}

// Each io rank fills one file, and a restore finds all shards in it; later saves overwrite these
// files as usual.
TEST(IoRanks, JoinedThereAreAsManyFilesAsIoRanks) {
  constexpr int ranks = 7;
  auto disk = std::make_shared<WatchedDisk>();
  ManagerOptions options;
  options.write.file_system = disk;
  options.keep.last = 2;
  for (const auto& io : {IoRanks::automatic(3), IoRanks{.choice = IoRanks::Choice::one_a_node,
                                                .memory_bytes = std::int64_t{1} << 30,
                                                .joined = true}}) {
    options.write.io_ranks = io;
    on_ranks(ranks, ranks_a_node, [&](auto group) {
      SavedRows rows(*group);
      std::string text = cat("of rank ", group->rank());
      rows.state.add(cat("text ", group->rank()), text);
      CheckpointManager manager(group, "/run", options);
      const auto before = manager.steps().empty() ? 0 : manager.steps().back().step;
      for (int step = 1; step <= 4; ++step) {
        rows.fill(group->rank() + 100 * step);
        manager.save(before + step, rows.state);
        EXPECT_EQ(manager.open(before + step).num_files, 3 + 1) << "with the metadata";
      }
      rows.fill(-1);
      text = "wrong";
      manager.restore(before + 3, rows.state);
      EXPECT_EQ(rows.row.back(), group->rank() + 300);
      EXPECT_EQ(text, cat("of rank ", group->rank()));
    });
  }
  EXPECT_EQ(disk->data().size(), 2 * 3u);
  options.write.io_ranks = IoRanks::everyone();
  on_ranks(2, 1, [&](auto group) {  // on other numbers of ranks
    std::vector<double> all(ranks * 3000);
    State state;
    state.add("u", whole(all.data(), {ranks, 3000}));
    CheckpointManager manager(group, "/run", options);
    ASSERT_TRUE(manager.restore_latest(state));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(all[static_cast<std::size_t>(rank) * 3000 + 7], rank + 400);
    }
  });
}

TEST(IoRanks, OtherPoliciesFilesAreNotJoined) {
  auto disk = std::make_shared<WatchedDisk>();
  ManagerOptions options;
  options.write.file_system = disk;
  options.write.io_ranks = IoRanks::automatic(2);
  options.store.policy = std::make_shared<MaxShardSizePolicy>(24000);
  on_ranks(4, 2, [&](auto group) {
    SavedRows rows(*group);
    rows.fill(group->rank());
    CheckpointManager(group, "/run", options).save(1, rows.state);
  });
  EXPECT_EQ(disk->data().size(), 4u);
}

TEST(IoRanks, OnlyTheyCheckASaveThatIsCompleted) {
  set_log_sink([](LogLevel, std::string_view) {});
  auto disk = std::make_shared<WatchedDisk>();
  ManagerOptions options;
  options.write.file_system = disk;
  options.write.io_ranks = IoRanks::count(2);
  options.write.part_records = true;
  const auto body = [&](auto group) {
    SavedRows rows(*group);
    rows.fill(group->rank());
    {
      CheckpointManager manager(group, "/run", options);
      if (group->rank() == 0) {
        disk->inject({Code::io, "rename", ".data-", 0, 1});
        disk->inject({Code::io, "remove", "", 0, 1000});
      }
      group->barrier();
      test::expect_error([&] { manager.save(1, rows.state); }, Code::io,
                         test::Says("a restart may still complete it"));
    }
    group->barrier();
    if (group->rank() == 0) disk->clear_faults();
    disk->touched();
    group->barrier();
    CheckpointManager manager(group, "/run", options);
    group->barrier();
    if (group->rank() == 0) {
      EXPECT_EQ(disk->touched(), (std::set<int>{0, 2}));
    }
    rows.fill(-1);
    ASSERT_TRUE(manager.restore_latest(rows.state));
    EXPECT_EQ(rows.row.front(), group->rank());
  };
  on_ranks(4, 0, body);
  set_log_sink({});
}

TEST(IoRanks, OfCheckpointAndShardedSave) {
  auto disk = std::make_shared<WatchedDisk>();
  on_ranks(4, 0, [&](auto group) {
    SavedRows rows(*group);
    rows.fill(1 + group->rank());
    CheckpointOptions options;
    options.write.file_system = disk;
    options.write.io_ranks = IoRanks::count(1);
    std::string path;
    {
      Checkpoint checkpoint(group, rows.state, options);
      path = checkpoint.save("/run/ckpt");
    }
    Checkpoint reader(group, rows.state, options);
    rows.fill(0);
    reader.restore(path).assert_consumed();
    EXPECT_EQ(rows.row.front(), 1 + group->rank());

    ShardedOptions sharded;
    sharded.write.file_system = disk;
    sharded.write.io_ranks = IoRanks::count(1);
    const Mesh mesh({{"x", 4}});
    const std::vector<LocalTensor> tensors{rows.state.tensors().front().second};
    sharded_save(group, mesh, "/run/sharded", {"u"}, {""}, tensors, sharded);
    rows.fill(0);
    sharded_restore(group, mesh, "/run/sharded", {"u"}, {""}, tensors, sharded);
    EXPECT_EQ(rows.row.back(), 1 + group->rank());
  });
  EXPECT_EQ(disk->touched(), std::set<int>{0});
}

TEST(IoRanks, SaversRunOnEveryRank) {
  auto disk = std::make_shared<WatchedDisk>();
  ManagerOptions options;
  options.write.file_system = disk;
  options.write.io_ranks = IoRanks::count(1);
  std::atomic<int> restored{0};
  const auto save = [&](const std::string& prefix) {
    const double value = test::this_rank;
    BundleWriter writer(cat(prefix, "-", test::this_rank), disk);
    writer.add(cat("extra/", test::this_rank), &value, {});
    writer.finish();
    return std::vector<std::string>{cat(prefix, "-", test::this_rank)};
  };
  const auto restore = [&](const std::string& prefix) {
    const BundleReader reader(prefix, disk);
    const auto bytes = reader.read(cat("extra/", test::this_rank));
    double value;
    std::memcpy(&value, bytes.data(), sizeof value);
    restored += value == test::this_rank;
  };
  options.hooks.savers = {{"sample", save, restore}};
  on_ranks(3, 0, [&](auto group) {
    SavedRows rows(*group);
    rows.fill(5);
    CheckpointManager manager(group, "/run", options);
    manager.save(1, rows.state);
    rows.fill(0);
    manager.restore(1, rows.state);
    EXPECT_EQ(rows.row.back(), 5);
  });
  EXPECT_EQ(restored, 3);
}

TEST(IoRanks, OptionsAreChecked) {
  const auto make = [](const IoRanks& of_rank_0, const IoRanks& of_others, Code code,
                       const char* text) {
    auto disk = std::make_shared<WatchedDisk>();
    on_ranks(2, 0, [&](auto group) {
      ManagerOptions options;
      options.write.file_system = disk;
      options.write.io_ranks = group->rank() == 0 ? of_rank_0 : of_others;
      test::expect_error([&] { CheckpointManager manager(group, "/run", options); }, code,
                         HasSubstr(text));
    });
  };
  auto little = IoRanks::count(1);
  little.memory_bytes = 1 << 20;
  make(little, little, Code::invalid_argument,
       "IoRanks::memory_bytes is 1048576, chunk_bytes is 16777216");
  make(IoRanks::count(0), IoRanks::count(0), Code::invalid_argument, "IoRanks::ranks is 0");
  make(IoRanks::count(1), IoRanks::one_a_node(), Code::disagreement,
       "ranks disagree on the io ranks: rank 0 says count 1, 67108864 bytes, rank 1 says "
       "one_a_node 0, 67108864 bytes");
}

}  // namespace
}  // namespace cairn
