// Directories of older versions, as jobs left them that were killed at each operation of a save:
// this version recovers them as the version that made them did.
// tests/store/directory/older/README.md tells how they were made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "io/temporary_directory.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  std::int64_t step = 0;
  double first = 0;
};

class Older : public testing::TestWithParam<const char*> {
 protected:
  Older() : saved_(commit::default_ownership()) {
    set_log_sink([](LogLevel, std::string_view) {});
    commit::default_ownership().lock_stale_seconds = 0;
    commit::default_ownership().overlap_seconds = 0;
    commit::default_ownership().heartbeat_seconds = 1e6;
  }
  ~Older() override {
    commit::default_ownership() = saved_;
    set_log_sink({});
  }

  void SetUp() override {
    const auto archive = cat(CAIRN_OLDER_DIR, "/", GetParam(), ".tar.gz");
    const auto command = cat("tar xzf '", archive, "' -C '", unpacked_.path().string(), "'");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  std::vector<Case> cases() const {
    std::vector<Case> all;
    std::ifstream expected(unpacked_.path() / "expected.txt");
    for (Case one; expected >> one.name >> one.step >> one.first;) all.push_back(one);
    return all;
  }

  // Loads the files onto a disk in memory, which syncs faster.
  std::shared_ptr<io::MemoryFileSystem> load(const std::string& name) const {
    auto disk = std::make_shared<io::MemoryFileSystem>();
    const auto from = unpacked_.path() / name;
    disk->create_directory("/run");
    for (const auto& entry : fs::recursive_directory_iterator(from)) {
      const auto to = "/run" / fs::relative(entry.path(), from);
      if (entry.is_directory()) {
        disk->create_directory(to);
      } else {
        std::stringstream bytes;
        bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        io::write_file(*disk, to, std::move(bytes).str());
      }
    }
    return disk;
  }

 private:
  commit::OwnershipOptions saved_;
  test::TemporaryDirectory unpacked_;
};

constexpr int rows = 3, rows_in_all = 6;

double value(std::int64_t step, int row) {
  return 1000.0 * static_cast<double>(step) + 10.0 * (row / rows) + row % rows;
}

// Entries in the listing of the directory that belong to no checkpoint there.
std::vector<std::string> debris(io::FileSystem& disk) {
  using Kind = commit::ParsedName::Kind;
  std::vector<std::string> found, mains;
  const auto entries = disk.list("/run");
  for (const auto& entry : entries) {
    const auto parsed = commit::parse_name(entry, "ckpt");
    if (commit::is_main(parsed.kind)) mains.push_back(cat(parsed.step));
  }
  for (const auto& entry : entries) {
    const auto parsed = commit::parse_name(entry, "ckpt");
    const bool of_a_checkpoint =
        std::find(mains.begin(), mains.end(), cat(parsed.step)) != mains.end();
    if (entry == ".cairn" || entry == "checkpoint" || commit::is_main(parsed.kind)) continue;
    if (parsed.kind == Kind::data && of_a_checkpoint) continue;
    found.push_back(entry);
  }
  return found;
}

void recover(std::shared_ptr<Group> group, const std::shared_ptr<io::FileSystem>& disk,
             const Case& one) {
  ManagerOptions options;
  options.write.file_system = disk;
  options.write.owner_wait_seconds = 0;
  options.write.recycle = false;  // so that data which waits for a save is no debris
  options.keep.last = 2;
  options.store.format = one.name.starts_with("hdf5") ? Format::hdf5 : Format::bundle;
  const auto begin = rows_in_all * group->rank() / group->size();
  const auto end = rows_in_all * (group->rank() + 1) / group->size();
  std::vector<double> u(static_cast<std::size_t>(end - begin));
  State state;
  state.add("u", slice(u.data(), {rows_in_all}, {begin}, {end - begin}));
  const auto expect = [&](std::int64_t step) {
    for (int row = begin; row < end; ++row) {
      ASSERT_EQ(u[static_cast<std::size_t>(row - begin)], value(step, row)) << row;
    }
  };
  const auto values_of = static_cast<std::int64_t>(one.first) / 1000;
  {
    CheckpointManager manager(group, "/run", options);
    const auto report = manager.restore_latest(state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, one.step);
    expect(values_of);
    for (const auto& info : manager.steps()) {
      manager.restore(info.step, state);
      expect(info.step == one.step ? values_of : info.step);
    }
    if (group->rank() == 0) {
      EXPECT_EQ(debris(*disk), std::vector<std::string>{});
    }
    group->barrier();
    for (int row = begin; row < end; ++row) {
      u[static_cast<std::size_t>(row - begin)] = value(50, row);
    }
    manager.save(50, state);
  }
  CheckpointManager manager(group, "/run", options);
  ASSERT_EQ(manager.restore_latest(state).value().step, 50);
  expect(50);
  EXPECT_EQ(manager.steps().size(), 2u);
  if (group->rank() == 0) {
    EXPECT_EQ(debris(*disk), std::vector<std::string>{});
  }
}

TEST_P(Older, IsRecoveredAsByTheVersionThatMadeIt) {
  const auto all = cases();
  ASSERT_GT(all.size(), 100u);
  for (const auto& one : all) {
    if (one.name.starts_with("hdf5") && !hdf5::available()) continue;
    SCOPED_TRACE(one.name);
    const auto disk = load(one.name);
    run_threads(one.name.ends_with("1") ? 3 : 1,
                [&](std::shared_ptr<Group> group) { recover(group, disk, one); });
    if (HasFailure()) return;
  }
}

// A reader changes nothing, and finds what was committed.
TEST_P(Older, IsReadWithoutBeingChanged) {
  for (const auto& one : cases()) {
    if (one.name.starts_with("hdf5") && !hdf5::available()) continue;
    if (one.name.starts_with("direct-overwrite")) continue;  // it may have been in between
    SCOPED_TRACE(one.name);
    const auto disk = load(one.name);
    const auto operations = disk->operation_count();
    ManagerOptions options;
    options.write.file_system = disk;
    options.read_only = true;
    std::vector<double> u(rows_in_all);
    State state;
    state.add("u", whole(u.data(), {rows_in_all}));
    CheckpointManager manager(serial_group(), "/run", options);
    ASSERT_TRUE(manager.restore_latest(state));
    const auto step = static_cast<std::int64_t>(u[0]) / 1000;
    EXPECT_TRUE(step == 30 || step == 40) << step;
    for (int row = 0; row < rows_in_all; ++row)
      EXPECT_EQ(u[static_cast<std::size_t>(row)], value(step, row));
    EXPECT_EQ(disk->operation_count(), operations);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, Older,
                         testing::Values("before-mending", "before-few-operations"),
                         [](const auto& archive) {
                           std::string name = archive.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace cairn
