// Ranks that share data files, as threads on a disk in memory: the plan tells each rank what to
// write where, and every rank takes part in each call whatever happens.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/log.hpp"
#include "support/group_kit.hpp"
#include "support/n_to_m.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "support/sharing_group.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using test::SharingGroup;
using ::testing::HasSubstr;

class SharedFilesTest : public ::testing::Test {
 protected:
  SharedFilesTest() {
    set_log_sink([](LogLevel, std::string_view) {});
    options.write.file_system = disk;
    options.write.writer = Writer::mpi_io;
    options.write.mpi_io.files = 2;
    options.write.chunk_bytes = 4096;
  }
  ~SharedFilesTest() override { set_log_sink({}); }

  void on_ranks(int ranks, int ranks_per_node,
                const std::function<void(std::shared_ptr<SharingGroup>)>& body) {
    run_threads(ranks, [&](auto group) { body(std::make_shared<SharingGroup>(group, disk)); },
                {.ranks_per_node = ranks_per_node});
  }

  std::shared_ptr<io::MemoryFileSystem> disk = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
};

TEST_F(SharedFilesTest, RandomCasesAndTheSameAsTheOtherWriter) {
  for (unsigned seed = 0; seed < test::rounds(120u); ++seed) {
    std::mt19937 random(seed);
    const int n = 1 + static_cast<int>(random() % 7), m = 1 + static_cast<int>(random() % 7);
    const int nodes = static_cast<int>(random() % 4);
    options.write.mpi_io.files = static_cast<int>(random() % 5);
    options.write.mpi_io.read_back = random() % 2 == 0;
    SCOPED_TRACE(
        cat("seed ", seed, ": ", n, " to ", m, " ranks, ", options.write.mpi_io.files, " files"));
    disk = std::make_shared<io::MemoryFileSystem>();
    options.write.file_system = disk;
    auto own = options;
    own.write.writer = Writer::posix;
    test::NToMCase one(n, m, seed);
    if (seed % 3 == 1) one.storage = Storage::dense;
    on_ranks(n, nodes, [&](auto group) {
      one.save(group, "/shared", options);
      one.save(group, "/own", own);
    });
    std::vector<std::string> wrong(static_cast<std::size_t>(m));
    run_threads(m, [&](auto group) {
      wrong[static_cast<std::size_t>(group->rank())] = one.restore(group, "/shared", own);
    });
    EXPECT_THAT(wrong, ::testing::Each(""));
    const BundleReader shared("/shared/ckpt-7", disk), apart("/own/ckpt-7", disk);
    ASSERT_EQ(shared.contents().tensors.size(), apart.contents().tensors.size());
    for (const auto& tensor : shared.contents().tensors) {
      const auto* other = apart.contents().find(tensor.key);
      ASSERT_TRUE(other) << tensor.key;
      ASSERT_EQ(tensor.slices.size(), other->slices.size());
      for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
        EXPECT_EQ(tensor.slices[s].box, other->slices[s].box);
        if (tensor.key.starts_with("_cairn/")) continue;
        EXPECT_EQ(tensor.slices[s].crc32c, other->slices[s].crc32c) << tensor.key;
      }
    }
  }
}

// Three tensors on each rank: one that needs several frames, a small one, and one that begins on a
// page.
struct Sample {
  explicit Sample(Group& group) : rank(group.rank()) {
    state.add(cat("big", rank), big).add(cat("small", rank), small).add(cat("mid", rank), mid);
  }
  int rank;
  std::vector<double> big = std::vector<double>(9000, 1.5), small = {1, 2, 3};
  std::vector<float> mid = std::vector<float>(700, 2.5F);
  State state;
};

TEST_F(SharedFilesTest, FramesAreBoundedAndRangesBeginOnPages) {
  std::vector<std::vector<SharingGroup::Write>> writes(5);
  on_ranks(5, 0, [&](auto group) {
    Sample mine(*group);
    CheckpointManager(group, "/run", options).save(1, mine.state);
    EXPECT_EQ(group->numbers, std::vector<int>{group->rank() * 2 / 5});
    writes[static_cast<std::size_t>(group->rank())] = group->writes;
  });
  std::map<std::string, std::map<std::int64_t, std::int64_t>> files;
  std::map<std::string, std::set<std::size_t>> rounds;
  for (const auto& of_rank : writes) {
    EXPECT_EQ(of_rank.front().offset % 4096, 0);
    rounds[of_rank.front().file].insert(of_rank.size());
    for (const auto& write : of_rank) {
      EXPECT_LE(write.bytes, 4096U);
      if (write.bytes == 0) continue;
      const auto end = write.offset + static_cast<std::int64_t>(write.bytes);
      EXPECT_TRUE(files[write.file].emplace(write.offset, end).second);
    }
  }
  EXPECT_EQ(files.size(), 2U);
  for (const auto& [file, ranges] : files) {
    EXPECT_EQ(rounds[file].size(), 1U) << "all ranks of a file take part equally often";
    std::int64_t last = 0;
    for (const auto& [begin, end] : ranges) {
      EXPECT_LE(last, begin);
      last = end;
    }
  }
}

TEST_F(SharedFilesTest, FilesThatNobodyNeedsAreNotMade) {
  options.write.mpi_io.files = 3;
  on_ranks(6, 0, [&](auto group) {
    // Ranks 2 and 3, which would share the second file, have nothing to write.
    std::vector<double> u(10, group->rank());
    State state;
    if (group->rank() / 2 != 1) state.add(cat("u", group->rank()), u);
    CheckpointManager manager(group, "/run", options);
    manager.save(1, state);
    EXPECT_EQ(manager.open(1).num_files, 3);
    EXPECT_EQ(group->numbers.size(), group->rank() / 2 == 1 ? 0U : 1U);
    for (const auto& tensor : manager.open(1).tensors) {
      if (tensor.key[0] != 'u') continue;
      EXPECT_EQ(tensor.slices[0].file, tensor.key[1] > '3' ? 1 : 0);
    }
  });
}

TEST_F(SharedFilesTest, WithoutSharedFilesNothingIsMade) {
  for (const int ranks : {1, 3}) {
    run_threads(ranks, [&](auto group) {
      test::expect_error([&] { CheckpointManager(group, "/run", options); }, Code::unsupported,
                         test::Says("no files that ranks write together"));
      EXPECT_FALSE(io::exists(*disk, "/run"));
    });
  }
  // These options do not matter to a reader.
  on_ranks(2, 0, [&](auto group) {
    Sample mine(*group);
    CheckpointManager(group, "/run", options).save(1, mine.state);
  });
  options.read_only = true;
  CheckpointManager reader(serial_group(), "/run", options);
  EXPECT_EQ(reader.steps().size(), 1U);
}

class SharedFilesFaults : public SharedFilesTest, public ::testing::WithParamInterface<Storage> {
 protected:
  // A good save, one that fails on rank 3 of four, another good one.
  void fail_a_save(Code code, const std::string& text,
                   const std::function<void(SharingGroup&)>& broken) {
    disk = std::make_shared<io::MemoryFileSystem>();
    options.write.file_system = disk;
    on_ranks(4, 0, [&](auto group) {
      std::vector<double> row(3000);
      State state;
      state.store(GetParam());
      state.add("u", slice(row.data(), {4, 3000}, {group->rank(), 0}, {1, 3000}));
      CheckpointManager manager(group, "/run", options);
      const auto fill = [&](double value) { std::fill(row.begin(), row.end(), value); };
      fill(1);
      manager.save(1, state);
      fill(2);
      group->barrier();
      if (group->rank() == 3) broken(*group);
      group->barrier();
      const auto error = test::error_of([&] { manager.save(2, state); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), code) << error->what();
      EXPECT_THAT(std::string(error->what()), HasSubstr(text));
      group->after_write = nullptr;
      group->loses_writes = false;
      ASSERT_EQ(manager.restore_latest(state)->step, 1);
      EXPECT_THAT(row, ::testing::Each(1.0));
      fill(3);
      manager.save(3, state);
      fill(-1);
      ASSERT_EQ(manager.restore_latest(state)->step, 3);
      EXPECT_THAT(row, ::testing::Each(3.0));
    });
  }

  static void flip(io::File& file, std::int64_t offset, std::size_t bytes) {
    std::vector<std::byte> one(1);
    const auto at = offset + static_cast<std::int64_t>(bytes) / 2;
    file.read_at(at, one);
    one[0] ^= std::byte{16};
    file.write_at(at, one);
  }
};

INSTANTIATE_TEST_SUITE_P(Storages, SharedFilesFaults,
                         ::testing::Values(Storage::sliced, Storage::dense), [](const auto& info) {
                           return info.param == Storage::dense ? "Dense" : "Sliced";
                         });

TEST_P(SharedFilesFaults, AnythingThatFails) {
  fail_a_save(Code::io, "part-", [&](auto&) { disk->inject({Code::io, "create", "part-", 0, 1}); });
  fail_a_save(Code::no_space, "part-", [&](auto&) {
    disk->inject({Code::no_space, "write", "part-", 3, 1});
  });
  fail_a_save(Code::io, "part-", [&](auto&) { disk->inject({Code::io, "sync", "part-", 0, 1}); });
  fail_a_save(Code::io, "no file is opened", [](auto& group) { group.open_fails = 1; });
  for (const int call : {1, 2, 5}) {
    fail_a_save(Code::io, "no write", [&](auto& group) { group.write_fails = call; });
  }
}

TEST_P(SharedFilesFaults, ChangedBytesAreFoundWhereTheLibraryIsDoubted) {
  const auto doubtful = [](auto& group) {
    group.doubt = "it is known to flip bits";
    group.after_write = flip;
  };
  options.write.mpi_io.hints = {{"speed", "high"}, {"width", "4"}};
  fail_a_save(Code::data_loss, "are not what rank 3 wrote there", doubtful);
  fail_a_save(Code::data_loss, "with the hints speed=high width=4", doubtful);
  fail_a_save(Code::data_loss, "it is known to flip bits", doubtful);
}

// Rank 3 writes the end of the file.
TEST_P(SharedFilesFaults, AFileThatEndsTooSoonIsFound) {
  options.write.mpi_io.read_back = true;
  fail_a_save(Code::data_loss, "the file ends at", [](auto& group) { group.loses_writes = true; });
}

// If the disk is full, that is the likely reason.
TEST_P(SharedFilesFaults, LostBytesOnAFullDiskAreNoSpace) {
  options.write.mpi_io.read_back = true;
  for (const bool full : {false, true}) {
    disk = std::make_shared<io::MemoryFileSystem>();
    options.write.file_system = disk;
    on_ranks(1, 0, [&](auto group) {
      std::vector<double> row(300, 1.0);
      State state;
      state.store(GetParam());
      state.add("u", whole(row.data(), {300}));
      CheckpointManager manager(group, "/run", options);
      group->after_write = [&](io::File& file, std::int64_t offset, std::size_t bytes) {
        flip(file, offset, bytes);
        constexpr auto most = std::int64_t{1} << 40;
        disk->set_capacity(most);
        if (full) disk->set_capacity(most - disk->free_bytes("/") + 100);
      };
      const auto error = test::error_of([&] { manager.save(1, state); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), full ? Code::no_space : Code::data_loss) << error->what();
      EXPECT_THAT(std::string(error->what()),
                  HasSubstr(full ? "Free space" : "or use Writer::posix"));
    });
  }
}

TEST_P(SharedFilesFaults, ChangedBytesAreFoundOnRequest) {
  options.write.mpi_io.read_back = true;
  fail_a_save(Code::data_loss, "was written by Sharing ranks 1.0 with no hints",
              [](auto& group) { group.after_write = flip; });
}

}  // namespace
}  // namespace cairn
