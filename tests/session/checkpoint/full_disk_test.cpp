// A job begins on a disk without a byte, or without an inode: it restores, and saves when there is
// room.
#include <gmock/gmock.h>

#include <mutex>

#include "base/text.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FullDisk : public test::MemoryRun {
 protected:
  using Rank = test::RunRank;
  FullDisk() {
    options_.keep.last = 0;
    options_.async.queue = inline_queue();
    set_log_sink([this](LogLevel level, std::string_view text) {
      const std::lock_guard guard(mutex_);
      if (level >= LogLevel::warning) log_ += cat(text, '\n');
    });
  }
  ~FullDisk() override { set_log_sink({}); }

  void fill() {
    for (const char* kind : {"create", "create_directory"}) {
      files_->inject({.code = Code::no_space, .kind = kind, .path_part = "", .times = 1u << 30});
    }
  }
  // Makes a directory like one of an earlier version, or one whose reserved room was taken.
  void remove_rooms() {
    for (const auto& name : files_->list("/run/.cairn")) {
      if (commit::parse_private_name(name).kind == commit::ParsedName::Kind::room) {
        files_->remove("/run/.cairn/" + name);
      }
    }
  }
  template <class F>
  static void alone(Rank& rank, F&& function) {
    rank.group->barrier();
    if (rank.group->rank() == 0) function();
    rank.group->barrier();
  }
  void expect_no_job();
  // Leaves a pending save of step 30 that was written when its job died.
  void die_before_the_commit() {
    std::shared_ptr<io::MemoryFileSystem> after;
    job([&](Rank& rank) {
      rank.save(10);
      rank.save(20);
      alone(rank, [&] { files_->inject({Code::io, "rename", "ckpt-30.index", 0, 1}); });
      rank.step = 30, rank.value = rank.value_of(30);
      rank.manager.save_async(30, rank.state);
      alone(rank, [&] { after = files_->crash(files_->operation_count(), {}); });
    });
    options_.write.file_system = files_ = after;
  }

  std::mutex mutex_;
  std::string log_;
};
INSTANTIATE_TEST_SUITE_P(Ranks, FullDisk, testing::Values(1, 3));

TEST_P(FullDisk, AnOwnerRestoresPinsAndLaterSaves) {
  job([](Rank& rank) {
    rank.save(10);
    rank.save(20);
  });
  fill();
  for (int turn = 0; turn < 2; ++turn) {
    job([&](Rank& rank) {
      EXPECT_EQ(rank.latest(), 20);
      if (turn == 0) rank.manager.pin(10);
      test::expect_error(Code::no_space, test::Says("cairn gc /run --max-to-keep N"),
                         [&] { rank.save(30); });
      EXPECT_THAT(rank.steps(), ElementsAre(10, 20));
      EXPECT_TRUE(rank.manager.steps()[0].pinned);
    });
  }
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 20);
    alone(rank, [&] { files_->clear_faults(); });
    rank.save(30);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30));
  });
}

TEST_P(FullDisk, WithoutRoomForItsRecordAJobRestoresAndLaterSaves) {
  job([](Rank& rank) {
    rank.save(10);
    rank.save(20);
  });
  remove_rooms();
  fill();
  job([&](Rank& rank) {
    const auto no_room =
        AllOf(HasSubstr("owner.tmp-"), test::Says("cairn gc /run --max-to-keep N"));
    EXPECT_EQ(rank.latest(), 20);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20));
    for (int turn = 0; turn < 2; ++turn) {
      test::expect_error(Code::no_space, no_room, [&] { rank.save(30); });
      test::expect_error(Code::no_space, no_room, [&] { rank.manager.save_async(30, rank.state); });
    }
    test::expect_error(Code::no_space, no_room, [&] { rank.manager.pin(10); });
    rank.manager.should_save(30);
    EXPECT_EQ(rank.latest(), 20);
    alone(rank, [&] { files_->clear_faults(); });
    rank.save(30);
    rank.manager.pin(10);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30));
    EXPECT_GT(rank.manager.steps()[2].sequence, rank.manager.steps()[1].sequence);
    rank.step = 40, rank.value = rank.value_of(40);
    rank.manager.save_async(40, rank.state);
    rank.manager.wait();
  });
  EXPECT_THAT(log_, test::Says("this job can restore, and not save: "));
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 40);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30, 40));
  });
}

// An owner that has come meanwhile keeps the directory.
TEST_P(FullDisk, WhoeverOwnsTheDirectoryByThenKeepsIt) {
  job([](Rank& rank) { rank.save(10); });
  remove_rooms();
  fill();
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    std::optional<commit::Ownership> other;
    alone(rank, [&] {
      files_->clear_faults();
      other.emplace(commit::Ownership::take(files_, "/run", 0));
    });
    test::expect_error(Code::busy, test::Says("in use"), [&] { rank.save(20); });
    EXPECT_EQ(rank.latest(), 10);
    alone(rank, [&] { other.reset(); });
    rank.save(20);
  });
}

TEST_P(FullDisk, WithoutAnythingToRestoreNoJobBegins) {
  for (const bool there : {false, true}) {
    if (there) io::create_directories(*files_, "/run");
    fill();
    expect_no_job();
    files_->clear_faults();
  }
}

void FullDisk::expect_no_job() {
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    test::expect_error(Code::no_space, HasSubstr("/run"), [&] { Rank(group, options_); });
  });
}

// The directory may not have a block for a longer name either.
TEST_P(FullDisk, WhatCannotBeRecoveredForLackOfRoomIsRead) {
  die_before_the_commit();
  files_->inject({Code::no_space, "rename", "_kept_", 0, 99});
  job([&](Rank& rank) {
    const auto report = rank.manager.restore_latest(rank.state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 20);
    EXPECT_THAT(report->skipped, ElementsAre(test::Says("step 30: it was written")));
    test::expect_error(Code::no_space, HasSubstr("_kept_"), [&] { rank.save(40); });
    // A reader keeps no owner from the directory.
    alone(rank, [&] { commit::Ownership::take(files_, "/run", 0).check(); });
    alone(rank, [&] { files_->clear_faults(); });
    EXPECT_EQ(rank.latest(), 20);
    rank.save(40);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30, 40));
    EXPECT_TRUE(rank.manager.steps()[2].superseded);
  });
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 40); });
}

// A save that was written and lacks room to be completed is reported, and completed when there is
// room.
TEST_P(FullDisk, AWrittenSaveIsCompletedWhenThereIsRoom) {
  for (const bool has_rooms : {true, false}) {
    SCOPED_TRACE(has_rooms ? "as the owner" : "as a reader");
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    die_before_the_commit();
    if (!has_rooms) remove_rooms();
    fill();
    job([&](Rank& rank) {
      const auto report = rank.manager.restore_latest(rank.state);
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, 20);
      EXPECT_THAT(
          report->skipped,
          ElementsAre(test::Says("step 30: it was written, and is completed when there is")));
    });
    files_->clear_faults();
    job([&](Rank& rank) {
      EXPECT_EQ(rank.latest(), 30);
      EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30));
    });
  }
}

// A save made before the recovery is newer than the recovered one.
TEST_P(FullDisk, AWrittenSaveIsBehindWhatIsSavedAfterIt) {
  die_before_the_commit();
  fill();
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 20);
    alone(rank, [&] { files_->clear_faults(); });
    rank.save(25);
    const auto report = rank.manager.restore_latest(rank.state);
    EXPECT_EQ(report->step, 25);
    EXPECT_THAT(report->skipped, IsEmpty());
  });
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 25);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 25));
  });
}

}  // namespace
}  // namespace cairn
