// Data files that the next save overwrites.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>

#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "io/temporary_directory.hpp"
#include "store/directory/recovery.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t values_a_row = 3000;

ManagerOptions keep_one(std::shared_ptr<io::FileSystem> files) {
  set_log_sink({});
  ManagerOptions options;
  options.keep.last = 1;
  options.write.owner_wait_seconds = 0;
  options.write.file_system = std::move(files);
  return options;
}

// Saves a row of numbers on each rank, all of which are the step.
void save(CheckpointManager& manager, Group& group, std::int64_t step,
          std::int64_t length = values_a_row) {
  std::vector<double> row(static_cast<std::size_t>(length), static_cast<double>(step));
  State state;
  state.add("row", slice(row.data(), {group.size(), length}, {group.rank(), 0}, {1, length}));
  manager.save(step, state);
}

std::vector<std::string> operations(const io::MemoryFileSystem& disk) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < disk.operation_count(); ++i) all.push_back(disk.operation_text(i));
  return all;
}

// The files that wait in the folder for that, or under their own names: data without an index.
std::vector<std::string> waiting(io::FileSystem& files, const io::Path& directory) {
  const auto folder = directory / ".cairn/recycled";
  auto all = files.status(folder) ? files.list(folder) : std::vector<std::string>();
  for (const auto& name : files.list(directory)) {
    const auto at = name.find(".data-");
    const auto index = directory / (name.substr(0, at) + ".index");
    if (at != name.npos && !files.status(index)) all.push_back(name);
  }
  return all;
}

class Recycle : public testing::Test {
 protected:
  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
};

// Whichever operation fails: a file that is moved out of a directory which a crash takes back may
// be lost with it.
TEST_F(Recycle, TheDirectoryIsDurableBeforeAnythingWaitsThere) {
  for (std::size_t skip = 0; skip < 12; ++skip) {
    disk_ = std::make_shared<io::MemoryFileSystem>();
    disk_->inject({Code::io, "sync_directory", "/run/.cairn", skip, 1});
    std::int64_t saved = 0;
    try {
      CheckpointManager manager(serial_group(), "/run", keep_one(disk_));
      for (std::int64_t step = 1; step <= 4; ++step) {
        save(manager, *serial_group(), step);
        saved = step;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::io) << error.what();
    }
    auto after = keep_one(disk_->crash(disk_->operation_count(), {.keep = false}));
    std::vector<double> row(values_a_row);
    State state;
    state.add("row", slice(row.data(), {1, values_a_row}, {0, 0}, {1, values_a_row}));
    const auto report = CheckpointManager(serial_group(), "/run", after).restore_latest(state);
    ASSERT_EQ(report ? report->step : 0, saved) << skip;
    if (report) {
      EXPECT_EQ(row, std::vector(values_a_row, static_cast<double>(saved))) << skip;
    }
  }
}

TEST_F(Recycle, ASaveOverwritesTheFilesOfTheOneThatExpired) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", keep_one(disk_));
    for (std::int64_t step = 1; step <= 2; ++step) save(manager, *group, step);
    group->barrier();
    if (group->rank() == 0) {
      EXPECT_THAT(waiting(*disk_, "/run"),
                  ElementsAre("ckpt-1.data-00000-of-00003", "ckpt-1.data-00001-of-00003",
                              "ckpt-1.data-00002-of-00003"));
      disk_->mark();
    }
    group->barrier();
    save(manager, *group, 3);
    group->barrier();
    if (group->rank() != 0) return;
    const auto done = operations(*disk_);
    for (const char* number : {"00000", "00001", "00002"}) {
      EXPECT_THAT(done, Contains(HasSubstr(cat("rename /run/ckpt-1.data-", number))));
      EXPECT_THAT(done, Not(Contains(testing::MatchesRegex(cat("create .*part-", number, ".*")))));
    }
    EXPECT_THAT(waiting(*disk_, "/run"), testing::SizeIs(3));
  });
  EXPECT_THAT(waiting(*disk_, "/run"), IsEmpty()) << "there will be no other save";
}

// Else a file could get its old name again from a later owner, which does not know of step 3.
TEST_F(Recycle, ASaveOfALowerStepOverwritesNothing) {
  CheckpointManager manager(serial_group(), "/run", keep_one(disk_));
  for (const std::int64_t step : {1, 3, 2}) {
    disk_->mark();
    save(manager, *serial_group(), step);
  }
  EXPECT_THAT(operations(*disk_), Contains(testing::MatchesRegex("create .*part-00000.*")));
}

TEST_F(Recycle, ReplacedCheckpointsOfOneNameToo) {
  const auto group = serial_group();
  std::vector<double> row(values_a_row, 1);
  State state;
  state.add("row", slice(row.data(), {values_a_row}, {0}, {values_a_row}));
  CheckpointOptions options;
  options.write.file_system = disk_;
  Checkpoint checkpoint(group, state, options);
  for (int i = 0; i < 3; ++i) {
    row.assign(values_a_row, i);
    checkpoint.write("/run/model");
    EXPECT_THAT(waiting(*disk_, "/run"), i == 0 ? ElementsAre()
                                                : testing::Matcher<std::vector<std::string>>(
                                                      ElementsAre("single.model.00000")));
  }
  row.assign(values_a_row, -1);
  checkpoint.read("/run/model").assert_consumed();
  EXPECT_EQ(row, std::vector<double>(values_a_row, 2));
}

TEST_F(Recycle, NothingWaitsWhereItIsOffOrCannotBe) {
  const auto never = [&](const char* what, const ManagerOptions& options) {
    SCOPED_TRACE(what);
    const auto group = serial_group();
    CheckpointManager manager(group, cat("/", what), options);
    for (std::int64_t step = 1; step <= 3; ++step) {
      save(manager, *group, step);
      EXPECT_THAT(waiting(*disk_, cat("/", what)), IsEmpty());
    }
  };
  auto options = keep_one(disk_);
  options.write.recycle = false;
  never("off", options);
  options = keep_one(disk_);
  options.write.atomic_rename = false;
  never("no-rename", options);
}

// In an asynchronous save the first rank to come makes the file of dense tensors. A recycled file
// would take the name from a quicker rank.
TEST_F(Recycle, PendingTheFileOfDenseTensorsIsNew) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", keep_one(disk_));
    std::vector<double> sliced(values_a_row), dense(values_a_row);
    State state;
    const auto row = [&](Storage storage, std::vector<double>& values) {
      return stored(storage, slice(values.data(), {group->size(), values_a_row}, {group->rank(), 0},
                                   {1, values_a_row}));
    };
    state.add("dense", row(Storage::dense, dense)).add("sliced", row(Storage::sliced, sliced));
    for (std::int64_t step = 1; step <= 6; ++step) {
      dense.assign(values_a_row, static_cast<double>(step));
      sliced = dense;
      manager.save_async(step, state);
    }
    manager.wait();
    dense.assign(values_a_row, -1);
    sliced = dense;
    manager.restore(6, state);
    EXPECT_EQ(dense, std::vector<double>(values_a_row, 6));
    EXPECT_EQ(sliced, dense);
  });
  const auto done = operations(*disk_);
  const auto recycled = [](const std::string& number) {
    return Contains(testing::MatchesRegex(cat("rename .* to .*part-", number, ".*")));
  };
  for (const char* number : {"00000", "00001", "00002"}) EXPECT_THAT(done, recycled(number));
  EXPECT_THAT(done, Not(recycled("00003")));
  EXPECT_THAT(done, Contains(testing::MatchesRegex("create .*part-00003.*")));
}

// Sizes grow and shrink, and there are gaps between tensors: no old byte is visible.
TEST_F(Recycle, FilesHaveTheBytesOfNewOnes) {
  for (const auto storage : {Storage::sliced, Storage::dense}) {
    for (unsigned seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(cat("seed ", seed, storage == Storage::dense ? ", dense" : ""));
      std::map<std::string, std::string> data[2];
      for (const bool recycle : {false, true}) {
        auto disk = std::make_shared<io::MemoryFileSystem>();
        auto options = keep_one(disk);
        options.write.recycle = recycle;
        run_threads(2, [&](std::shared_ptr<Group> group) {
          CheckpointManager manager(group, "/run", options);
          std::mt19937 random(seed);  // the same on both ranks
          for (std::int64_t step = 1; step <= 5; ++step) {
            std::vector<std::vector<std::int8_t>> rows;
            State state;
            for (int tensor = 0; tensor < 4; ++tensor) {
              const std::int64_t length =
                  1 + static_cast<std::int64_t>(random() % (random() % 2 ? 200'000 : 5'000));
              auto& row = rows.emplace_back(static_cast<std::size_t>(length), step * 10 + tensor);
              state
                  .add(cat("t", tensor),
                       slice(row.data(), {2, length}, {group->rank(), 0}, {1, length}))
                  .store(storage);
            }
            manager.save(step, state);
          }
          group->barrier();
          if (group->rank() != 0) return;
          EXPECT_EQ(waiting(*disk, "/run").empty(), !recycle);
        });
        for (const auto& name : disk->list("/run")) {
          const auto at = name.find(".data-");
          if (at == name.npos ||
              name.substr(at + 6, 5) == cat("0000", storage == Storage::dense ? 1 : 2))
            continue;
          data[recycle][name] = io::read_file(*disk, io::Path("/run") / name, 1 << 30);
        }
      }
      EXPECT_EQ(data[0].size(), storage == Storage::dense ? 1u : 2u);
      EXPECT_TRUE(data[0] == data[1]);
    }
  }
}

TEST_F(Recycle, WhatTheNextSaveHasNoUseForGoesBeforeIt) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    CheckpointManager manager(group, "/run", keep_one(disk_));
    for (std::int64_t step = 1; step <= 2; ++step) save(manager, *group, step);
    // Rank 0 has everything: one data file, and the metadata.
    std::vector<double> row(values_a_row, 3);
    State state;
    if (group->rank() == 0)
      state.add("row", slice(row.data(), {values_a_row}, {0}, {values_a_row}));
    bool gone = true;
    if (group->rank() == 0) {
      disk_->set_observer([&](const std::string& operation) {
        if (operation.find("part-00000") == std::string::npos) return;
        for (const auto& name : disk_->list("/run/.cairn/recycled"))
          gone &= name != "steps.ckpt.00001";
      });
    }
    group->barrier();
    manager.save(3, state);
    group->barrier();
    if (group->rank() == 0) disk_->set_observer({});
    EXPECT_TRUE(gone);
  });
}

TEST_F(Recycle, SpaceThatWillBeOverwrittenCountsAsFree) {
  const auto group = serial_group();
  constexpr std::int64_t length = std::int64_t{2} << 20;
  CheckpointManager manager(group, "/run", keep_one(disk_));
  for (std::int64_t step = 1; step <= 2; ++step) save(manager, *group, step, length);
  const auto free_bytes = disk_->free_bytes("/run");
  constexpr std::int64_t total = std::int64_t{1} << 40;
  disk_->set_capacity(total - free_bytes + (std::int64_t{5} << 20));  // 5 MiB are free
  EXPECT_NO_THROW(save(manager, *group, 3, length));
  test::expect_error(Code::no_space,
                     AllOf(HasSubstr("step 4 needs "),
                           test::Says("and 4.00 MiB for its index, records and metadata")),
                     [&] { save(manager, *group, 4, length * 3); });
}

TEST_F(Recycle, AnOwnerRemovesWhatAnotherLeft) {
  const auto group = serial_group();
  {
    CheckpointManager manager(group, "/run", keep_one(disk_));
    for (std::int64_t step = 1; step <= 2; ++step) save(manager, *group, step);
    // As if the process died now.
    disk_ = disk_->crash(disk_->operation_count(), {});
  }
  io::write_file(*disk_, "/run/.cairn/recycled/steps.other.00000", "of another name");
  io::write_file(*disk_, "/run/.cairn/recycled/mine", "of nobody");
  const Location place{disk_, "/run", "ckpt"};
  std::vector<std::string> planned;
  for (const auto& step : plan_recovery(place, {*group, {0}})) planned.push_back(step.entry);
  EXPECT_THAT(planned, ElementsAre("ckpt-1.data-00000-of-00002", "ckpt-1.data-00001-of-00002",
                                   StartsWith("ckpt-9223372036854775807_temp_")));
  CheckpointManager manager(group, "/run", keep_one(disk_));
  EXPECT_THAT(waiting(*disk_, "/run"), ElementsAre("mine", "steps.other.00000"));
  EXPECT_EQ(manager.steps().size(), 1u);
}

// People archive with links, or move files away and leave a link.
class RecycleOnDisk : public testing::Test {
 protected:
  fs::path data(std::int64_t step) const {
    return directory_.path() / cat("ckpt-", step, ".data-00000-of-00002");
  }
  std::string bytes(const fs::path& path) const { return io::read_file(*files_, path, 1 << 30); }
  static std::string expected(std::int64_t step) {
    const std::vector<double> row(values_a_row, static_cast<double>(step));
    return {reinterpret_cast<const char*>(row.data()), row.size() * sizeof(double)};
  }
  const test::TemporaryDirectory directory_{fs::current_path()};
  const std::shared_ptr<io::FileSystem> files_ = io::posix_file_system();
  const std::shared_ptr<Group> group_ = serial_group();
};

TEST_F(RecycleOnDisk, OverwritesTheSameFile) {
  for (const auto direct : {DirectIo::automatic, DirectIo::on, DirectIo::off}) {
    auto options = keep_one(nullptr);
    options.write.direct_io = direct;
    CheckpointManager manager(group_, directory_.path() / cat(static_cast<int>(direct)), options);
    const auto folder = directory_.path() / cat(static_cast<int>(direct));
    save(manager, *group_, 1);
    save(manager, *group_, 2);
    const auto open = files_->open_read(folder / "ckpt-1.data-00000-of-00002");
    save(manager, *group_, 3);
    std::string seen(values_a_row * sizeof(double), '\0');
    open->read_at(0, std::as_writable_bytes(std::span(seen)));
    EXPECT_EQ(seen, expected(3)) << "it is the same file";
    EXPECT_EQ(bytes(folder / "ckpt-3.data-00000-of-00002"), expected(3));
  }
}

// How many pages of a file are in the page cache, and how many it has.
std::pair<std::size_t, std::size_t> cached_pages(const fs::path& path) {
  const auto size = fs::file_size(path), page = static_cast<std::uintmax_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((size + page - 1) / page);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const at = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  EXPECT_NE(at, MAP_FAILED);
  EXPECT_EQ(mincore(at, size, there.data()), 0);
  munmap(at, size);
  close(file);
  const auto cached =
      std::count_if(there.begin(), there.end(), [](unsigned char one) { return one & 1; });
  return {static_cast<std::size_t>(cached), there.size()};
}

TEST_F(RecycleOnDisk, WithoutDirectIoIsWrittenThroughThePageCache) {
  constexpr std::int64_t length = 1 << 20;  // so much that a file goes past it else, where it can
  auto options = keep_one(nullptr);
  options.write.direct_io = DirectIo::off;
  CheckpointManager manager(group_, directory_.path(), options);
  for (int step = 1; step <= 3; ++step) save(manager, *group_, step, length);
  const auto [cached, all] = cached_pages(data(3));
  EXPECT_EQ(all, length * sizeof(double) / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(cached, all);
}

// Files are written past the page cache where the file system allows that: then only the partial
// last page is in the cache.
TEST_F(RecycleOnDisk, ByDefaultIsWrittenAsANewFileIs) {
  constexpr std::int64_t length = 1 << 20;
  CheckpointManager manager(group_, directory_.path(), keep_one(nullptr));
  const auto mostly_cached = [&](int step) {
    const auto [cached, all] = cached_pages(data(step));
    return 2 * cached > all;
  };
  save(manager, *group_, 1, length);
  const bool new_file = mostly_cached(1);
  for (int step = 2; step <= 3; ++step) save(manager, *group_, step, length);
  EXPECT_EQ(mostly_cached(3), new_file);
}

TEST_F(RecycleOnDisk, AFileWithAnotherNameKeepsItsBytes) {
  CheckpointManager manager(group_, directory_.path(), keep_one(nullptr));
  const auto archive = directory_.path() / "archive";
  fs::create_directory(archive);
  save(manager, *group_, 1);
  fs::create_hard_link(data(1), archive / "one");  // before it expires
  save(manager, *group_, 2);
  save(manager, *group_, 3);
  EXPECT_FALSE(fs::exists(data(1)));
  ASSERT_TRUE(fs::exists(data(2)));
  fs::create_hard_link(data(2), archive / "two");  // while it waits: cp -rl of all
  save(manager, *group_, 4);
  save(manager, *group_, 5);
  EXPECT_EQ(bytes(archive / "one"), expected(1));
  EXPECT_EQ(bytes(archive / "two"), expected(2));
}

// A forked child that runs its destructors at exit removes nothing of its parent.
TEST_F(RecycleOnDisk, AForkedChildLeavesWhatWaits) {
  auto manager = std::make_unique<CheckpointManager>(group_, directory_.path(), keep_one(nullptr));
  save(*manager, *group_, 1);
  save(*manager, *group_, 2);
  double value = 3;
  State state;
  state.add("row", slice(&value, {1, 1}, {0, 0}, {1, 1}));
  manager->save_async(3, state);
  manager->wait();
  const auto before = waiting(*files_, directory_.path());
  ASSERT_THAT(before, Not(IsEmpty()));
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);  // the child hung, if it ends by this
    manager.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(waiting(*files_, directory_.path()), before);
  manager->save_async(4, state);
  manager->wait();
  EXPECT_EQ(manager->steps().back().step, 4);
}

TEST_F(RecycleOnDisk, AFileBehindASymbolicLinkKeepsItsBytes) {
  CheckpointManager manager(group_, directory_.path(), keep_one(nullptr));
  const auto away = directory_.path() / "away";
  save(manager, *group_, 1);
  fs::rename(data(1), away);
  fs::create_symlink(away, data(1));
  for (std::int64_t step = 2; step <= 4; ++step) save(manager, *group_, step);
  EXPECT_EQ(bytes(away), expected(1));
  EXPECT_FALSE(fs::exists(fs::symlink_status(data(1))));
}

TEST_F(RecycleOnDisk, ALinkThatWaitsIsReplacedByANewFile) {
  CheckpointManager manager(group_, directory_.path(), keep_one(nullptr));
  for (std::int64_t step = 1; step <= 2; ++step) save(manager, *group_, step);
  const auto away = directory_.path() / "away";
  fs::rename(data(1), away);
  fs::create_symlink(away, data(1));
  save(manager, *group_, 3);
  EXPECT_EQ(bytes(data(3)), expected(3));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(data(3))));
  EXPECT_EQ(bytes(away), expected(1));
}

}  // namespace
}  // namespace cairn
