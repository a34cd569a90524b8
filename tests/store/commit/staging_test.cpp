// The staging directory, from which an owner saves.
#include "store/commit/staging_directory.hpp"

#include <gmock/gmock.h>

#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "store/commit/owner_kit.hpp"
#include "store/commit/removal.hpp"
#include "testing/memory.hpp"

namespace cairn::commit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class StagingOf : public testing::Test {
 protected:
  StagingOf() {
    set_log_sink([](LogLevel, std::string_view) {});
    disk_->create_directory("/d");
    owner_.emplace(Ownership::take(disk_, "/d", 0));
    staging_.emplace(disk_, "/d", "a", *owner_);
  }
  ~StagingOf() override { set_log_sink({}); }

  io::FileId put(std::int64_t step, const std::string& bytes = "an index") {
    io::write_file(*disk_, index(step), bytes);
    return disk_->status(index(step))->id;
  }
  static io::Path index(std::int64_t step) {
    return io::Path("/d") / index_name(prefix_name("a", step));
  }
  std::string read(const io::Path& path) { return io::read_file(*disk_, path, 1000); }
  bool told(std::int64_t step, io::MemoryFileSystem& disk) {
    return was_retired(disk, "/d", disk.list("/d"), "a", step);
  }
  // Lets another process become the owner.
  void lose() {
    disk_->remove("/d/.cairn/owner");
    io::write_file(*disk_, "/d/.cairn/owner", print_owner(stranger()));
  }

  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  std::optional<Ownership> owner_;
  std::optional<Staging> staging_;
};

TEST_F(StagingOf, StandsUntilItsOwnerEnds) {
  EXPECT_FALSE(staging_->is_made());
  const auto uuid = staging_->make();
  EXPECT_EQ(staging_->make(), uuid);
  const auto path = staging_->path();
  EXPECT_EQ(path, "/d/a-9223372036854775807_temp_" + uuid);
  io::write_file(*disk_, path / staged_name(uuid, part_name(0, 2)), "half of it");
  staging_->end();
  EXPECT_FALSE(io::exists(*disk_, path));
  EXPECT_NE(staging_->make(), uuid) << "what still comes back from a failed save finds nothing";
  io::write_file(*disk_, staging_->path() / "mine", "of nobody");
  const auto second = staging_->path();
  staging_.reset();
  EXPECT_THAT(disk_->list(second), ElementsAre("mine"));
}

// The present owner may be about to complete a save that was written there.
TEST_F(StagingOf, StaysInADirectoryThatIsLost) {
  for (const bool dies : {false, true}) {
    const auto uuid = staging_->make();
    const auto file = staging_->path() / staged_name(uuid, part_name(0, 2));
    io::write_file(*disk_, file, "all of it");
    const auto record = io::read_file(*disk_, "/d/.cairn/owner", 1000);
    lose();
    dies ? staging_.reset() : staging_->end();
    EXPECT_EQ(read(file), "all of it");
    disk_->remove("/d/.cairn/owner");
    io::write_file(*disk_, "/d/.cairn/owner", record);
    if (!dies) {
      EXPECT_NE(staging_->make(), uuid) << "nothing is saved over it";
    }
  }
}

TEST_F(StagingOf, WhatASuccessorHasTakenIsNotGone) {
  Transaction save{"/d", "a", 7, new_uuid(), 2};
  save.staging = staging_->make();
  io::write_file(*disk_, save.record(0, 1), "a record");
  disk_->rename(staging_->path(), "/d/a-taken");
  EXPECT_TRUE(abandon(*disk_, save, *owner_)) << "somebody has removed it";
  lose();
  EXPECT_CAIRN_ERROR(abandon(*disk_, save, *owner_), Code::busy, "no longer owned");
}

TEST_F(StagingOf, IsNotMadeInAnothersDirectory) {
  lose();
  EXPECT_CAIRN_ERROR(staging_->make(), Code::busy, "no longer owned");
  EXPECT_THAT(disk_->list("/d"), ElementsAre(".cairn"));
}

// An owner that was stopped as it began, and goes on while a successor saves.
TEST_F(StagingOf, OfASuccessorIsNotTaken) {
  lose();
  const auto its = "/d/" + staging_directory_name("a", new_uuid());
  disk_->create_directory(its);
  const auto is_foreign = [](const std::string&) { return false; };
  EXPECT_CAIRN_ERROR(take_staging(*disk_, "/d", "a", *owner_, is_foreign), Code::busy,
                     "no longer owned");
  EXPECT_TRUE(io::exists(*disk_, its));
}

TEST_F(StagingOf, KeepsARetiredIndexForTheNextToOverwrite) {
  staging_->make();
  const auto id = put(7);
  EXPECT_TRUE(staging_->retire_index(7, id));
  EXPECT_FALSE(io::exists(*disk_, index(7)));
  EXPECT_TRUE(told(7, *disk_));
  EXPECT_FALSE(told(8, *disk_));
  const auto retired = staging_->take_retired(8);
  ASSERT_TRUE(retired);
  EXPECT_EQ(read(retired->path), "an index");
  EXPECT_FALSE(staging_->take_retired(8));
  EXPECT_TRUE(staging_->retire_index(7, id)) << "there is none any more";
}

TEST_F(StagingOf, AnIndexDoesNotGetANameAgainThatItMayHaveHad) {
  for (const std::int64_t step : {6, 7}) {
    staging_->make();
    EXPECT_TRUE(staging_->retire_index(7, put(7)));
    EXPECT_TRUE(told(7, *disk_));
    EXPECT_FALSE(staging_->take_retired(step));
    EXPECT_FALSE(io::exists(*disk_, staging_->path() / retired_name(7)));
  }
}

// In every state after a power failure: the data of a retired checkpoint are overwritten next.
TEST_F(StagingOf, ARetiredIndexIsGoneDurably) {
  staging_->make();
  const auto id = put(7);
  disk_->sync_directory("/d");
  staging_->retire_index(7, id);
  for (const auto& choice : disk_->crash_choices(disk_->operation_count())) {
    const auto after = disk_->crash(disk_->operation_count(), choice);
    EXPECT_FALSE(io::exists(*after, index(7))) << disk_->describe(disk_->operation_count(), choice);
  }
}

TEST_F(StagingOf, LeavesAFileThatIsNotTheOneThatIsMeant) {
  staging_->make();
  const auto id = put(7);
  disk_->remove(index(7));
  put(7, "another program's");
  EXPECT_FALSE(staging_->retire_index(7, id));
  EXPECT_EQ(read(index(7)), "another program's");
  EXPECT_FALSE(staging_->take_retired(8));
}

TEST_F(StagingOf, GivesBackAFileThatCameAfterTheLook) {
  staging_->make();
  const auto id = put(7);
  bool came = false;
  disk_->set_observer([&](const std::string& operation) {
    if (came || operation.find("rename /d/a-7.index to ") != 0) return;
    came = true;
    disk_->remove(index(7));
    put(7, "another program's");
  });
  EXPECT_FALSE(staging_->retire_index(7, id));
  disk_->set_observer({});
  EXPECT_TRUE(came);
  EXPECT_EQ(read(index(7)), "another program's");
  EXPECT_FALSE(told(7, *disk_));
  EXPECT_FALSE(staging_->take_retired(8));
}

TEST_F(StagingOf, GivesAnIndexBackIfItsRemovalIsNotDurable) {
  staging_->make();
  const auto id = put(7);
  disk_->inject({Code::io, "sync_directory", "_temp_"});
  EXPECT_CAIRN_ERROR(staging_->retire_index(7, id), Code::io, "");
  EXPECT_EQ(read(index(7)), "an index");
  EXPECT_FALSE(staging_->take_retired(8));
}

// The disk is full: it is neither durable that the index was set aside, nor has the index its name
// again.
TEST_F(StagingOf, AnIndexThatMayComeBackFindsItsData) {
  for (const bool dies : {false, true}) {
    const auto id = put(7);
    io::write_file(*disk_, "/d/a-7.data-00000-of-00001", "data");
    staging_->make();
    disk_->sync_directory("/d");
    disk_->mark();
    disk_->inject({Code::no_space, "sync_directory", "_temp_"});
    disk_->inject({Code::no_space, "rename", "a-7.index", 1});  // the rename back
    EXPECT_CAIRN_ERROR(staging_->retire_index(7, id), Code::no_space, "");
    disk_->clear_faults();
    EXPECT_FALSE(io::exists(*disk_, index(7)));
    staging_->leave();
    if (dies) {
      staging_.reset();
      owner_.reset();
      owner_.emplace(Ownership::take(disk_, "/d", 0));
      take_staging(*disk_, "/d", "a", *owner_, [](const auto&) { return false; });
    }
    EXPECT_TRUE(remove_checkpoint(*disk_, "/d", "a", {7, id}, *owner_));
    disk_->sync_directory("/d");
    for (std::size_t stop = 0; stop <= disk_->operation_count(); ++stop) {
      const auto after = disk_->crash(stop, {.keep = false});
      EXPECT_TRUE(!io::exists(*after, index(7)) || io::exists(*after, "/d/a-7.data-00000-of-00001"))
          << "after " << stop << " operations";
    }
    if (!dies) staging_->make();
  }
}

TEST_F(StagingOf, LeavesAFileThatGetsTheNameOfARemovedOneMeanwhile) {
  const SeenFile seen{index(7).filename().string(), put(7)};
  bool replaced = false;
  disk_->set_observer([&](const std::string& operation) {
    if (!operation.starts_with("rename") || std::exchange(replaced, true)) return;
    disk_->remove(index(7));
    put(7, "another's");
  });
  EXPECT_FALSE(Removal(*disk_, "/d", *owner_).remove({seen}));
  disk_->set_observer({});
  EXPECT_TRUE(replaced);
  EXPECT_EQ(read(index(7)), "another's");
}

TEST_F(StagingOf, IsPendingUntilTheStateFileIsDurable) {
  staging_->make();
  staging_->renamed_state_file();
  EXPECT_TRUE(staging_->is_pending());
  staging_->sync_state_file();
  EXPECT_FALSE(staging_->is_pending());
}

TEST_F(StagingOf, RetiresNothingOnceASuccessorHasTakenIt) {
  staging_->make();
  const auto id = put(7);
  lose();
  disk_->rename(staging_->path(), "/d/in-other-hands");
  EXPECT_CAIRN_ERROR(staging_->retire_index(7, id), Code::busy, "no longer owned");
  EXPECT_EQ(read(index(7)), "an index");
  staging_.reset();
  EXPECT_TRUE(io::exists(*disk_, "/d/in-other-hands"));
}

// A retired checkpoint that the state file still lists would count as lost.
TEST_F(StagingOf, TheStateFileIsDurableBeforeNothingElseTellsOfTheRetired) {
  for (const bool forgets : {false, true}) {
    staging_->make();
    const auto id = put(7);
    if (io::exists(*disk_, "/d/checkpoint")) disk_->remove("/d/checkpoint");
    io::write_file(*disk_, "/d/checkpoint", "lists 7");
    disk_->sync_directory("/d");
    disk_->mark();
    const auto staged = staging_->path() / staged_name(new_uuid(), staged_state_name);
    io::write_file(*disk_, staged, "does not");
    disk_->rename(staged, "/d/checkpoint");
    staging_->renamed_state_file();
    staging_->retire_index(7, id);
    forgets ? staging_->forget_retired() : staging_->end();
    for (std::size_t stop = 0; stop <= disk_->operation_count(); ++stop) {
      for (const auto& choice : disk_->crash_choices(stop)) {
        const auto after = disk_->crash(stop, choice);
        const bool good = io::exists(*after, index(7)) || told(7, *after) ||
                          io::read_file(*after, "/d/checkpoint", 1000) == "does not";
        EXPECT_TRUE(good) << disk_->describe(stop, choice);
      }
    }
  }
}

// A file of somebody else with that name has nothing that must be made durable.
TEST_F(StagingOf, AFileInItsPlaceDoesNotStopASuccessor) {
  io::write_file(*disk_, io::Path("/d") / staging_directory_name("a", new_uuid()), "a file");
  take_staging(*disk_, "/d", "a", *owner_, [](const auto&) { return false; });
}

// The directory may hold an index whose data is removed later, and that must not come back.
TEST_F(StagingOf, OneThatCannotBeListedIsSyncedAllTheSame) {
  const auto dead = io::Path("/d") / staging_directory_name("a", new_uuid());
  disk_->create_directory(dead);
  disk_->sync_directory("/d");
  disk_->mark();
  io::write_file(*disk_, dead / retired_name(4), "ours");  // the directory is not synced
  disk_->inject({.code = Code::io, .kind = "list", .path_part = "_kept_"});
  take_staging(*disk_, "/d", "a", *owner_, [](const auto&) { return false; });
  const auto after = disk_->crash(disk_->operation_count(), {.keep = false});
  for (const auto& entry : after->list("/d")) {
    if (entry.find("_kept_") == entry.npos) continue;
    EXPECT_TRUE(io::exists(*after, io::Path("/d") / entry / retired_name(4)));
    return;
  }
  FAIL() << "it was not taken";
}

TEST_F(StagingOf, ASuccessorTakesItAndGivesBackWhatIsNotCairns) {
  const auto dead = io::Path("/d") / staging_directory_name("a", new_uuid());
  disk_->create_directory(dead);
  io::write_file(*disk_, dead / retired_name(3), "foreign");
  io::write_file(*disk_, dead / retired_name(4), "ours");
  io::write_file(*disk_, dead / retired_name(5), "foreign");
  put(5, "a later one");
  const auto is_foreign = [](const std::string& bytes) { return bytes == "foreign"; };
  take_staging(*disk_, "/d", "a", *owner_, is_foreign);
  EXPECT_FALSE(io::exists(*disk_, dead));
  EXPECT_EQ(read(index(3)), "foreign");
  EXPECT_FALSE(io::exists(*disk_, index(4)));
  EXPECT_EQ(read(index(5)), "a later one");
  EXPECT_TRUE(told(4, *disk_)) << "until the next state file is written";
  const auto before = disk_->list("/d");
  EXPECT_THAT(before, testing::Contains(HasSubstr("_kept_")));
  take_staging(*disk_, "/d", "a", *owner_, is_foreign);
  EXPECT_EQ(disk_->list("/d"), before);
  take_staging(*disk_, "/d", "another", *owner_, is_foreign);
  EXPECT_EQ(disk_->list("/d"), before);
}

}  // namespace
}  // namespace cairn::commit
