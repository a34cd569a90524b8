// On a disk without bytes or inodes left, the next owner can begin.
#include "store/commit/room.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "io/temporary_directory.hpp"
#include "store/commit/owner_kit.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/state_file.hpp"
#include "testing/memory.hpp"

namespace cairn::commit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FullDisk : public ::testing::TestWithParam<bool> {  // no bytes are left; else no inodes
 protected:
  using Disk = std::shared_ptr<io::MemoryFileSystem>;

  FullDisk() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~FullDisk() override { set_log_sink({}); }

  // To be called again after a write that is shorter than its room: a real file keeps the block,
  // but this disk counts bytes.
  static void fill(const Disk& disk) {
    if (GetParam()) {
      constexpr std::int64_t large = std::int64_t{1} << 30;
      disk->set_capacity(large);
      return disk->set_capacity(large - disk->free_bytes("/"));
    }
    for (const char* kind : {"create", "create_directory"}) {
      disk->inject({.code = Code::no_space, .kind = kind, .path_part = "", .times = 1u << 30});
    }
  }
  static void empty(const Disk& disk) {
    disk->clear_faults();
    disk->set_capacity(std::int64_t{1} << 30);
  }
  static Ownership take(const Disk& disk, OwnershipOptions options = {}) {
    return Ownership::take(disk, "/run", 0, options);
  }
  static OwnershipOptions tool() {
    OwnershipOptions options;
    options.may_lack_record = true;
    return options;
  }
  static std::vector<std::string> rooms(const Disk& disk) {
    std::vector<std::string> all;
    for (const auto& name : disk->list("/run/.cairn")) {
      if (parse_private_name(name).kind == ParsedName::Kind::room) all.push_back(name);
    }
    return all;
  }
  // The disk as a process that dies at this moment leaves it.
  static Disk die(const Disk& disk) {
    auto after = disk->crash(disk->operation_count(), {});
    fill(after);
    return after;
  }

  Disk disk_ = std::make_shared<io::MemoryFileSystem>();
};
INSTANTIATE_TEST_SUITE_P(All, FullDisk, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "bytes" : "inodes"; });

TEST_P(FullDisk, OwnersComeAndGo) {
  take(disk_).check();
  EXPECT_THAT(rooms(disk_), ElementsAre("room.0", "room.1"));
  fill(disk_);
  for (int turn = 0; turn < 3; ++turn) {
    const auto owner = take(disk_);
    owner.check();
    EXPECT_EQ(read_owner(*disk_, "/run")->token, owner.record().token);
    EXPECT_THAT(rooms(disk_).back(), "room.1");
    EXPECT_CAIRN_ERROR(take(disk_), Code::busy, "in use");
    fill(disk_);
  }
  EXPECT_THAT(rooms(disk_), ElementsAre("room.0", "room.1"));
  EXPECT_THAT(private_files(*disk_, "/run"), ElementsAre("lock"));
}

TEST_P(FullDisk, OwnersDie) {
  { const auto owner = take(disk_); }
  fill(disk_);
  auto disk = disk_;
  // An owner that replaces a dead one's record frees its inode, which this disk does not count.
  for (int turn = 0; turn < (GetParam() ? 4 : 2); ++turn) {
    const auto owner = take(disk);
    owner.check();
    disk = die(disk);
  }
}

// Every state that a crash can leave, on a disk that is as full as before.
TEST_P(FullDisk, EveryCrashLeavesADirectoryThatCanBeTaken) {
  { const auto owner = take(disk_); }
  disk_->mark();
  fill(disk_);
  { const auto owner = take(disk_); }
  const auto count = disk_->operation_count();
  EXPECT_GT(count, 8u);
  for (std::size_t stop = 0; stop <= count; ++stop) {
    for (const auto& choice : disk_->crash_choices(stop)) {
      const auto disk = disk_->crash(stop, choice);
      fill(disk);
      SCOPED_TRACE(disk_->describe(stop, choice));
      const auto owner = take(disk);
      EXPECT_NO_THROW(owner.check());
      EXPECT_THAT(private_files(*disk, "/run"), ElementsAre("lock", "owner"));
    }
  }
}

// The lock tells that the owner is dead: then its record is room.
TEST_P(FullDisk, ADeadOwnersRecordIsWrittenOver) {
  const auto dead = take(disk_);
  for (const auto& name : rooms(disk_)) disk_->remove("/run/.cairn/" + name);
  const auto disk = die(disk_);
  {
    const auto owner = take(disk);
    owner.check();
    EXPECT_EQ(read_owner(*disk, "/run")->token, owner.record().token);
  }
  EXPECT_EQ(rooms(disk).front(), "room.0");
  for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
    for (const auto& choice : disk->crash_choices(stop)) {
      const auto after = disk->crash(stop, choice);
      fill(after);
      SCOPED_TRACE(disk->describe(stop, choice));
      take(after, tool()).check();
    }
  }
}

TEST_P(FullDisk, TheRecordOfAnOwnerElsewhereIsNotWrittenOver) {
  { const auto owner = take(disk_); }
  for (const auto& name : rooms(disk_)) disk_->remove("/run/.cairn/" + name);
  const auto record = print_owner(stranger());
  io::write_file(*disk_, "/run/.cairn/owner", record);
  fill(disk_);
  EXPECT_CAIRN_ERROR(take(disk_), Code::no_space, "owner.tmp-");
  EXPECT_EQ(io::read_file(*disk_, "/run/.cairn/owner", 4096), record);
}

// A pin leaves the owner its reserved room.
TEST_P(FullDisk, OnePinFindsRoom) {
  { const auto owner = take(disk_); }
  fill(disk_);
  const auto pin = [&](const std::string& name) {
    commit::replace_file(*disk_, "/run", "/run/.cairn/pinned/" + name, "text of " + name, true);
  };
  EXPECT_CAIRN_ERROR(commit::replace_file(*disk_, "/run", "/run/.cairn/pinned/none", "text"),
                     Code::no_space, "");
  pin("ckpt-1");
  fill(disk_);
  EXPECT_EQ(io::read_file(*disk_, "/run/.cairn/pinned/ckpt-1", 100), "text of ckpt-1");
  EXPECT_CAIRN_ERROR(pin("ckpt-2"), Code::no_space, "");
  EXPECT_THAT(disk_->list("/run/.cairn/pinned"), ElementsAre("ckpt-1"));
  EXPECT_THAT(rooms(disk_), ElementsAre("room.0"));
  { const auto owner = take(disk_); }
  EXPECT_EQ(rooms(disk_).front(), "room.0");
  empty(disk_);
  { const auto owner = take(disk_); }
  EXPECT_THAT(rooms(disk_), ElementsAre("room.0", "room.1"));
}

TEST_P(FullDisk, WithoutRoomWhoMakesSomeBeginsWhereNobodysRecordIs) {
  { const auto owner = take(disk_); }
  for (const auto& name : rooms(disk_)) disk_->remove("/run/.cairn/" + name);
  fill(disk_);
  EXPECT_CAIRN_ERROR(take(disk_), Code::no_space, "owner.tmp-");
  EXPECT_THAT(private_files(*disk_, "/run"), ElementsAre("lock"));
  {
    const auto owner = take(disk_, tool());
    owner.check();
    EXPECT_CAIRN_ERROR(take(disk_, tool()), Code::busy, "in use");
    empty(disk_);
    io::write_file(*disk_, "/run/.cairn/owner", print_owner(stranger()));
    fill(disk_);
    EXPECT_CAIRN_ERROR(owner.check(), Code::busy, "its owner is process 4242");
  }
  EXPECT_CAIRN_ERROR(
      take(disk_, tool()), Code::no_space,
      "nobody's may be there, and one is, of process 4242 on host elsewhere, job 77");
  EXPECT_TRUE(read_owner(*disk_, "/run"));
}

// An owner that finds room reserves some again.
TEST_P(FullDisk, ARecordThatIsLeftBecomesRoom) {
  auto owner = std::make_unique<Ownership>(take(disk_));
  for (const auto& name : rooms(disk_)) disk_->remove("/run/.cairn/" + name);
  fill(disk_);
  owner.reset();
  EXPECT_THAT(rooms(disk_), ElementsAre("room.0"));
  take(disk_).check();
}

// A longer name may need another block of its directory.
TEST(Room, IsGivenUpForARename) {
  io::MemoryFileSystem disk;
  io::create_directories(disk, "/run/.cairn");
  keep_room(disk, "/run");
  io::write_file(disk, "/run/a", "");
  disk.inject({.code = Code::no_space, .kind = "rename", .path_part = "longer"});
  rename_with_room(disk, "/run", "/run/a", "/run/longer");
  EXPECT_TRUE(disk.status("/run/longer"));
  EXPECT_FALSE(disk.status("/run/.cairn/room.1"));
  EXPECT_TRUE(disk.status("/run/.cairn/room.0"));
  disk.inject({.code = Code::no_space, .kind = "rename", .path_part = "longer", .times = 99});
  EXPECT_CAIRN_ERROR(rename_with_room(disk, "/run", "/run/longer", "/run/b"), Code::no_space, "");
  EXPECT_FALSE(disk.status("/run/.cairn/room.0"));
}

// Bytes that have another name, too, belong to somebody else.
TEST(RoomOnDisk, ALinkIsNotWrittenInto) {
  test::TemporaryDirectory home;
  const auto files = io::posix_file_system();
  const auto directory = home.path() / "run", other = home.path() / "other";
  { const auto owner = Ownership::take(files, directory, 0); }
  for (const bool symbolic : {true, false}) {
    io::write_file(*files, other, "somebody's");
    const auto room = directory / ".cairn" / room_name(1), path = directory / ".cairn/new";
    files->remove(room);
    symbolic ? std::filesystem::create_symlink(other, room)
             : std::filesystem::create_hard_link(other, room);
    EXPECT_FALSE(replace_in_room(*files, directory, path, "text", directory / ".cairn/tmp"));
    EXPECT_EQ(io::read_file(*files, other, 100), "somebody's");
    EXPECT_FALSE(io::exists(*files, path));
    files->remove(other);
    const auto owner = Ownership::take(files, directory, 0);
    EXPECT_EQ(files->status(room)->size, 4096);
  }
}

}  // namespace
}  // namespace cairn::commit
