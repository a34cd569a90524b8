// Blocks that an overwritten data file holds already are not written again.
#include <algorithm>
#include <limits>
#include <random>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "io/temporary_directory.hpp"
#include "store/commit/known_blocks.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "unchanged_kit.hpp"

namespace cairn {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(Unchanged, OnlyBlocksThatDifferFromTheOverwrittenFileAreWritten) {
  begin();
  save();
  save();
  EXPECT_THAT(written(), ElementsAre("0-8"));
  save();
  EXPECT_THAT(written(), IsEmpty());
  EXPECT_EQ(last().unchanged_bytes, 8 * block);
  EXPECT_EQ(last().bytes, 0);
  change(2), change(5);
  save();
  EXPECT_THAT(written(), ElementsAre("2-3", "5-6"));
  EXPECT_EQ(last().bytes, 2 * block);
  EXPECT_EQ(last().unchanged_bytes, 6 * block);
  EXPECT_EQ(last().recycled_files, 1);
  expect_whole();
  change(7);
  save();  // over the save before the last, which has none of these changes
  EXPECT_THAT(written(), ElementsAre("2-3", "5-6", "7-8"));
  expect_whole();
  save();
  EXPECT_THAT(written(), ElementsAre("7-8"));
  expect_whole();
}

TEST_F(Unchanged, NothingIsLeftOutIfForbidden) {
  options_.write.skip_unchanged = SkipUnchanged::off;
  begin(40);
  for (int i = 0; i < 6; ++i) {
    save();
    EXPECT_EQ(last().bytes, 40 * block);
  }
  EXPECT_EQ(last().unchanged_bytes, 0);
}

TEST_F(Unchanged, AStateThatGrowsOrShrinks) {
  begin(6);
  for (int i = 0; i < 2; ++i) save();
  const auto resize = [&](std::int64_t values) {
    const auto before = u_.size();
    u_.resize(static_cast<std::size_t>(values));
    for (auto i = before; i < u_.size(); ++i) u_[i] = static_cast<double>(i);
    save();
    expect_whole();
  };
  resize(5 * values_a_block + 100);
  EXPECT_THAT(written(), ElementsAre(cat("5-", 5 + 800.0 / block)));
  resize(5 * values_a_block + 100);
  EXPECT_THAT(written(), ElementsAre(cat("5-", 5 + 800.0 / block)));
  resize(5 * values_a_block + 100);
  EXPECT_THAT(written(), IsEmpty());
  resize(9 * values_a_block);
  EXPECT_THAT(written(), ElementsAre("5-9"));
  // The file's rest is zeros, and was not there.
  std::fill(u_.begin(), u_.end(), 0);
  resize(9 * values_a_block);
  resize(4 * values_a_block);
  resize(12 * values_a_block);
}

// Nobody may rely on what another program may have changed.
TEST_F(Unchanged, AFileThatSomebodyHasTouchedIsWrittenInFull) {
  begin();
  const auto touched = [&](auto&& touch) {
    save(), save(), save();
    EXPECT_THAT(written(), IsEmpty());
    touch(data(step_ - 1));  // it waits for the next save
    save();
    EXPECT_THAT(written(), ElementsAre("0-8"));
    expect_whole();
  };
  touched([&](const std::string& path) {
    const auto byte = std::byte{1};
    disk_->open_write(path)->write_at(3 * block, {&byte, 1});
  });
  touched([&](const std::string& path) {  // with the same bytes: that is not looked at
    std::vector<std::byte> bytes(16);
    disk_->open_read(path)->read_at(0, bytes);
    disk_->open_write(path)->write_at(0, bytes);
  });
  touched([&](const std::string& path) {
    const auto bytes = io::read_file(*disk_, path, 1 << 30);
    disk_->remove(path);
    io::write_file(*disk_, path, std::string(bytes.size(), 'x'));
  });
  touched([&](const std::string& path) {
    disk_->rename(path, "/away");
    disk_->rename("/away", path);
  });
  touched([&](const std::string& path) { disk_->open_write(path)->resize(3 * block); });
}

TEST_F(Unchanged, WithoutTimesOfChangeEverythingIsWritten) {
  struct Timeless : io::FileSystemWrapper {
    using FileSystemWrapper::FileSystemWrapper;
    std::optional<io::Status> status(const io::Path& path) override {
      auto found = target().status(path);
      if (found) found->changed_nanoseconds = 0;
      return found;
    }
  };
  options_.write.file_system = std::make_shared<Timeless>(disk_);
  begin();
  for (int i = 0; i < 5; ++i) save();
  EXPECT_THAT(written(), ElementsAre("0-8"));
}

TEST_F(Unchanged, AFailedSaveLeavesNoHashes) {
  for (const char* kind : {"write", "sync", "rename"}) {
    for (const char* where : {"part-00000", "index"}) {
      SCOPED_TRACE(cat(kind, " of ", where));
      disk_ = std::make_shared<io::MemoryFileSystem>();
      options_.write.file_system = disk_;
      step_ = 0;
      begin();
      save(), save(), save();
      const auto good = u_;
      for (std::int64_t b = 0; b < 8; b += 2) change(b);
      // The rename of a data file to its final name; the first one takes the old file.
      disk_->inject({Code::io, kind, where, kind == std::string("rename") ? 1u : 0u, 1});
      bool failed = false;
      try {
        save();
      } catch (const Error&) {
        failed = true;
        --step_;
      }
      disk_->clear_faults();
      u_ = good;
      for (int i = 0; i < 4; ++i) {
        ++step_, save();
        expect_whole();
      }
      EXPECT_TRUE(failed || kind != std::string("sync") || where == std::string("index"));
    }
  }
}

TEST_F(Unchanged, BlocksThatAreLeftOutAreReadBackAndMended) {
  options_.frozen.read_every = 3;
  begin(40);
  for (int i = 0; i < 3; ++i) save();
  // One block of each sixteen that are read together.
  for (const auto at : {5 * block, 20 * block + 100, 39 * block + 9}) disk_->rot(data(2), at);
  int mended = 0;
  for (int turn = 0; turn < 3; ++turn) {
    save();  // over the rotten file
    mended += static_cast<int>(written().size());
    if (turn < 2) save();  // over the other one
    if (turn < 2) EXPECT_THAT(written(), IsEmpty());
  }
  EXPECT_EQ(mended, 3);
  EXPECT_THAT(said_, Contains(test::Says(" does not hold at byte ")));
  expect_whole();
}

TEST_F(Unchanged, ABlockThatCannotBeReadIsWritten) {
  options_.frozen.read_every = 1;
  begin();
  for (int i = 0; i < 3; ++i) save();
  EXPECT_THAT(written(), IsEmpty());
  disk_->inject({Code::io, "read", "part-00000", 4, 1});
  save();
  EXPECT_THAT(written(), ElementsAre("4-5"));
  disk_->clear_faults();
  disk_->inject({Code::io, "open", "part-00000", 1, 1});  // the file cannot be opened to read it
  save();
  EXPECT_THAT(written(), ElementsAre("0-1"));
  disk_->clear_faults();
  expect_whole();
}

// Memory with strides passes through one buffer, chunk by chunk.
TEST_F(Unchanged, BytesThatDoNotStayAreWrittenBeforeTheNextCome) {
  begin(64);
  const auto rows = std::ssize(u_) / 2;
  State state;
  state.add("u", slice(u_.data(), {rows, 2}, {0, 0}, {rows, 2}, {1, rows}));
  for (int i = 0; i < 6; ++i) {
    for (std::int64_t b = 0; b < 64; ++b) change(b);
    manager_->save(++step_, state);
    const auto saved = u_;
    std::fill(u_.begin(), u_.end(), -1);
    manager_->restore(step_, state);
    EXPECT_TRUE(u_ == saved) << step_;
  }
}

// A block that is not written again is still looked at for numbers that are not finite.
TEST_F(Unchanged, NumbersThatAreNotFiniteAreNoted) {
  options_.restore.finite = true;
  begin();
  u_[5] = std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < 5; ++i) {
    save();
    const auto contents = manager_->open(step_);
    ASSERT_TRUE(contents.meta && contents.meta->not_finite);
    EXPECT_THAT(contents.meta->not_finite->keys, ElementsAre("u")) << step_;
  }
  EXPECT_THAT(written(), IsEmpty());
}

TEST_F(Unchanged, NothingIsReadBackWithZero) {
  options_.frozen.read_every = 0;
  begin();
  for (int i = 0; i < 3; ++i) save();
  disk_->inject({Code::io, "read", "part-00000", 0, 1000});
  for (int i = 0; i < 4; ++i) save();
  EXPECT_THAT(written(), IsEmpty());
}

// First a sample, then all blocks; and none for a while once few are equal. The second save finds
// its sample as the first one had it, so the third hashes all.
TEST_F(Unchanged, ItFindsOutWhetherItPays) {
  options_.write.skip_unchanged = SkipUnchanged::automatic;
  begin(64);
  const auto save_unchanged = [&](int times) {
    for (int i = 0; i < times; ++i) save();
    return last().unchanged_bytes / block;
  };
  EXPECT_EQ(save_unchanged(2), 0) << "the third save is the first that finds an old file";
  for (int i = 0; i < 2; ++i) {
    const auto sample = save_unchanged(1);
    EXPECT_GT(sample, 0);
    EXPECT_LE(sample, 16);
  }
  EXPECT_EQ(save_unchanged(1), 64);
  const auto save_changed = [&](int times) {
    for (int i = 0; i < times; ++i) {
      for (std::int64_t b = 0; b < 64; ++b) change(b);
      save();
      EXPECT_EQ(last().unchanged_bytes, 0);
    }
  };
  save_changed(1);
  EXPECT_EQ(save_unchanged(15), 0) << "it rests";
  EXPECT_EQ(save_unchanged(10), 64);
  expect_whole();
}

// It pays from the save that overwrites the third one's file.
TEST_F(Unchanged, ItPaysSoonAfterTheFirstFileIsWrittenOver) {
  options_.write.skip_unchanged = SkipUnchanged::automatic;
  for (const int keep : {1, 3, 16}) {
    disk_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = disk_;
    options_.keep.last = keep;
    step_ = 0;
    begin(64);
    for (int i = 0; i < keep + 3; ++i) {
      save();
      EXPECT_LT(last().unchanged_bytes, 64 * block);
    }
    save();
    EXPECT_EQ(last().unchanged_bytes, 64 * block) << keep;
    expect_whole();
    change(5);
    save();
    EXPECT_EQ(last().unchanged_bytes, 63 * block) << keep;
    expect_whole();
  }
}

// A state that always changes is not hashed but for a sample, and nothing is where nothing will be
// written over.
TEST_F(Unchanged, NothingIsHashedForNothing) {
  options_.write.skip_unchanged = SkipUnchanged::automatic;
  for (const int keep : {3, 0, 17}) {
    disk_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = disk_;
    options_.keep.last = keep;
    step_ = 0;
    begin(64);
    for (int i = 0; i < 8; ++i) {
      for (std::int64_t b = 0; keep == 3 && b < 64; ++b) change(b);
      save();
      EXPECT_EQ(last().unchanged_bytes, 0);
    }
    expect_whole();
  }
}

TEST_F(Unchanged, SmallFilesAreNotComparedByThemselves) {
  options_.write.skip_unchanged = SkipUnchanged::automatic;
  begin(8);
  for (int i = 0; i < 8; ++i) save();
  EXPECT_EQ(last().unchanged_bytes, 0);
}

TEST(KnownBlocks, HashesTakeALimitedRoom) {
  io::MemoryFileSystem disk;
  commit::KnownBlocks known;
  constexpr std::int64_t most = commit::KnownBlocks::most_bytes / 20;
  const auto hold = [&](const std::string& path, std::int64_t sequence, std::int64_t blocks) {
    if (!disk.status(path)) io::write_file(disk, path, "x");
    commit::BlockHashes hashes;
    hashes.file_bytes = 1;
    hashes.digests.resize(static_cast<std::size_t>(blocks), {1, 1});
    known.hold({path, disk.status(path).value(), 0, sequence}, std::move(hashes));
  };
  hold("/a", 1, most / 2);
  hold("/b", 2, most / 2);
  hold("/c", 3, 1);
  EXPECT_FALSE(known.take(disk, "/c")) << "there was no room";
  EXPECT_TRUE(known.take(disk, "/a"));
  EXPECT_FALSE(known.take(disk, "/a")) << "it is forgotten";
  hold("/c", 3, most / 2);
  EXPECT_TRUE(known.take(disk, "/c"));
  EXPECT_FALSE(known.take(disk, "/b")) << "it is older than one that was overwritten";
  io::write_file(disk, "/longer", "xy");
  hold("/longer", 4, 1);
  EXPECT_FALSE(known.take(disk, "/longer")) << "the hashes are not of all its bytes";
  hold("/b", 2, most);  // all room is there again
  EXPECT_TRUE(known.take(disk, "/b"));
  EXPECT_LE(commit::KnownBlocks::block_bytes(std::int64_t{1} << 40), std::int64_t{256} << 10);
}

// Whatever changes, and however it is saved, the values are those of a full save.
struct Way {
  const char* name;
  int ranks = 1;
  bool async = false;
  bool strided = false;
  IoRanks io_ranks = {};
  bool two_files = false;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class UnchangedWays : public testing::TestWithParam<Way> {};

TEST_P(UnchangedWays, RestoreWhatWasSaved) {
  set_log_sink({});
  const auto& way = GetParam();
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  std::int64_t unchanged = 0;
  run_threads(way.ranks, [&](std::shared_ptr<Group> group) {
    ManagerOptions options;
    options.keep.last = 2;
    options.write.owner_wait_seconds = 0;
    options.write.file_system = disk;
    options.write.skip_unchanged = SkipUnchanged::on;
    options.write.io_ranks = way.io_ranks;
    options.frozen.read_every = 2;
    options.async.queue = inline_queue();
    if (way.two_files) {
      options.store.policy = std::make_shared<MaxShardSizePolicy>(150'000);
    }
    CheckpointManager manager(group, "/run", options);
    const std::int64_t ranks = group->size(), rank = group->rank();
    // `u` is large; the small ones lie between pages and are gathered.
    std::vector<double> u(30'000);
    std::vector<std::vector<double>> small(40, std::vector<double>(37));
    std::mt19937 random(7);  // the same on all ranks
    const auto columns = std::int64_t{2};
    const auto make = [&](std::vector<double>& of_u, std::vector<std::vector<double>>& of_small) {
      State state;
      const auto rows = std::ssize(of_u) / columns;
      if (way.strided) {  // of other memory than it has in the file
        state.add("u", slice(of_u.data(), {ranks * rows, columns}, {rank * rows, 0},
                             {rows, columns}, {1, rows}));
      } else {
        state.add("u",
                  slice(of_u.data(), {ranks * rows, columns}, {rank * rows, 0}, {rows, columns}));
      }
      for (std::size_t i = 0; i < of_small.size(); ++i) {
        state.add(cat("small/", i), slice(of_small[i].data(), {ranks * 37}, {rank * 37}, {37}));
      }
      return state;
    };
    for (std::int64_t step = 1; step <= 24; ++step) {
      for (auto changes = random() % 4; changes > 0; --changes) u[random() % u.size()] += 1;
      if (random() % 3 == 0) small[random() % small.size()][0] += 1;
      if (step == 9) u.resize(26'000, 1);
      if (step == 15) u.resize(44'000, 2);
      const auto state = make(u, small);
      if (way.async) {
        const auto until = step % 2 == 0 ? Until::captured : Until::released;
        manager.save_async(step, state, {.until = until}).release();
        manager.wait();
      } else {
        manager.save(step, state);
      }
      auto other_u = std::vector<double>(u.size(), -1);
      auto other_small = std::vector<std::vector<double>>(40, std::vector<double>(37, -1));
      auto restored = make(other_u, other_small);
      manager.restore(step, restored);
      ASSERT_TRUE(other_u == u) << step;
      ASSERT_TRUE(other_small == small) << step;
      if (group->rank() == 0) unchanged += manager.statistics().last.back().unchanged_bytes;
    }
  });
  EXPECT_GT(unchanged, way.ranks * 1'000'000);
}

INSTANTIATE_TEST_SUITE_P(
    All, UnchangedWays,
    testing::Values(Way{"Blocking"}, Way{"Ranks", 3}, Way{"Async", 2, true},
                    Way{"Strided", 2, false, true}, Way{"StridedAsync", 1, true, true},
                    Way{"IoRanks", 4, false, false, IoRanks::count(2)},
                    Way{"IoRanksAsync", 4, true, false, IoRanks::count(2)},
                    Way{"JoinedIoRanks",
                        4,
                        false,
                        false,
                        {.choice = IoRanks::Choice::count, .ranks = 1, .joined = true}},
                    Way{"TwoFiles", 2, false, false, {}, true}),
    [](const auto& info) { return info.param.name; });

// Past the page cache, where the file system allows that, and through it.
TEST(UnchangedOnDisk, OnlyWhatDiffersIsWritten) {
  set_log_sink({});
  for (const auto direct : {DirectIo::automatic, DirectIo::on, DirectIo::off}) {
    const test::TemporaryDirectory directory{std::filesystem::current_path()};
    ManagerOptions options;
    options.keep.last = 1;
    options.write.owner_wait_seconds = 0;
    options.write.skip_unchanged = SkipUnchanged::on;
    options.write.direct_io = direct;
    options.frozen.read_every = 1;
    CheckpointManager manager(serial_group(), directory.path(), options);
    std::vector<double> u(48 * values_a_block + 5);
    for (std::size_t i = 0; i < u.size(); ++i) u[i] = static_cast<double>(i);
    State state;
    state.add("u", slice(u.data(), {std::ssize(u)}, {0}, {std::ssize(u)}));
    for (std::int64_t step = 1; step <= 8; ++step) {
      if (step > 3) u[static_cast<std::size_t>(step * 5 * values_a_block)] += 1;
      manager.save(step, state);
      const auto before = u;
      u.assign(u.size(), -1);
      manager.restore(step, state);
      ASSERT_TRUE(u == before) << step;
      const auto bytes = manager.statistics().last.back().bytes;
      if (step == 3) EXPECT_EQ(bytes, 0);
      if (step > 4) EXPECT_EQ(bytes, 2 * block);
    }
  }
}

}  // namespace
}  // namespace cairn
