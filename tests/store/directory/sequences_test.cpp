// Each sequence is given only once, whatever could not be read; and a save whose commit is unknown
// is neither deleted nor believed.
#include "store/commit/sequences.hpp"
#include "base/text.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/names.hpp"
#include "support/manager_kit.hpp"
#include "support/other_host.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;

class Sequences : public Manager {
 protected:
  Sequences() { options_.write.part_records = true; }
  // Makes a directory like those of earlier versions.
  void forget_reservations() {
    for (const auto& name : files_->list("/run/.cairn")) {
      if (name.starts_with("sequences.")) files_->remove("/run/.cairn/" + name);
    }
  }
  void fail_once_to_read(std::initializer_list<int> steps) {
    for (const auto step : steps) {
      files_->inject({Code::io, "open", cat("ckpt-", step, ".index"), 0, 2});
      files_->inject({Code::io, "open", cat("ckpt-", step, ".data-"), 0, 9});
    }
  }
};

TEST_P(Sequences, AreNotGivenTwiceAfterAReadErrorAtTheOpening) {
  job([&](Rank& rank) {
    for (const int step : {10, 20, 30, 40}) rank.save(step);
  });
  for (const int step : {20, 30, 40}) {
    files_->inject({Code::io, "open", cat("ckpt-", step), 0, 999});
  }
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    files_->clear_faults();
    rank.save(15);
    EXPECT_EQ(rank.manager.steps().back().step, 15);
  });
  options_.keep.last = 1;
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 15);
    const auto steps = rank.manager.steps();
    EXPECT_EQ(steps.back().step, 15);
    for (const auto& info : steps) EXPECT_EQ(info.newest, info.step == 15) << info.step;
    rank.save(16);
    EXPECT_THAT(rank.steps(), ElementsAre(16));
  });
}

// The records of a committed save stay in the staging directory until others overwrite them. A
// power failure brings back the data that a later save of the step has removed.
TEST_P(Sequences, ACommittedSaveDoesNotComeBackOverALaterOneThatCannotBeRead) {
  options_.overwrite = true;
  std::shared_ptr<io::MemoryFileSystem> after;
  job([&](Rank& rank) {
    rank.step = 9, rank.value = 900.0 + rank.group->rank();
    rank.manager.save_async(10, rank.state);
    rank.manager.wait();
    rank.save(10);
    rank.group->barrier();
    if (rank.group->rank() == 0) after = files_->crash(files_->operation_count(), {.keep = false});
    rank.group->barrier();
  });
  options_.write.file_system = files_ = after;
  files_->inject({Code::io, "open", "ckpt-10.index", 0, 1});
  job([&](Rank&) {});
  files_->clear_faults();
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    EXPECT_THAT(rank.steps(), ElementsAre(10));
    EXPECT_EQ(rank.manager.steps().front().sequence, 2);
  });
}

TEST_P(Sequences, AnUndecidedSaveIsOlderThanWhatIsSavedMeanwhile) {
  job([&](Rank& rank) {
    rank.save(10);
    // The job dies at its commit: the save is complete, except for that.
    if (rank.group->rank() == 0) {
      files_->inject({Code::internal, "rename", "ckpt-30.index", 0, 1000});
      files_->inject({Code::io, "remove", "record-", 0, 1000});
    }
    rank.group->barrier();
    EXPECT_THROW(rank.save(30), Error);
  });
  files_->clear_faults();
  files_->inject({Code::io, "open", "record-", 0, 1000});
  job([&](Rank& rank) {
    files_->clear_faults();
    EXPECT_EQ(rank.latest(), 10);
    rank.save(15);
  });
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 15);
    EXPECT_FALSE(rank.manager.steps().back().superseded);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 15));
  });
}

TEST_P(Sequences, OfAnUndecidedSaveThatNothingCameAfterCompleteIt) {
  job([&](Rank& rank) {
    rank.save(10);
    if (rank.group->rank() == 0) {
      files_->inject({Code::internal, "rename", "ckpt-30.index", 0, 1000});
      files_->inject({Code::io, "remove", "record-", 0, 1000});
    }
    rank.group->barrier();
    EXPECT_THROW(rank.save(30), Error);
  });
  files_->clear_faults();
  files_->inject({Code::io, "open", "record-", 0, 1000});
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 10); });
  files_->clear_faults();
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 30); });
}

TEST_P(Sequences, NothingIsSavedWhereTheyCannotBeKnown) {
  job([&](Rank& rank) {
    for (const int step : {10, 20, 30}) rank.save(step);
  });
  forget_reservations();
  fail_once_to_read({20, 30});
  job([&](Rank& rank) {
    files_->clear_faults();
    expect_error(rank, Code::io, "may be newer than all that could: ckpt-20, ckpt-30",
                 [&] { rank.save(15); });
    expect_error(rank, Code::io, "nothing can be saved in /run now",
                 [&] { rank.manager.save_async(15, rank.state); });
    EXPECT_EQ(rank.latest(), 30);  // the index is read again
  });
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 30);
    rank.save(40);
    EXPECT_EQ(rank.latest(), 40);
  });
}

TEST_P(Sequences, AReservationGoesOnWhenItIsUsedUp) {
  job([&](Rank& rank) { rank.save(10); });
  const auto most = commit::most_sequences - commit::sequence_block;
  io::write_file(*files_, "/run/.cairn/" + commit::sequences_name(most), "");
  job([&](Rank& rank) {
    rank.save(20);
    EXPECT_EQ(rank.manager.steps().back().sequence, most + 1);
  });
  job([&](Rank& rank) {
    expect_error(rank, Code::no_space, "has used up its numbers", [&] { rank.save(30); });
    EXPECT_EQ(rank.latest(), 20);
  });
}

// A server that carries out a rename and reports an error.
class LyingDisk : public test::OtherHost {
 public:
  explicit LyingDisk(std::shared_ptr<io::MemoryFileSystem> disk)
      : OtherHost(disk, Locks::granted), disk_(std::move(disk)) {}
  void rename(const io::Path& from, const io::Path& to) override {
    OtherHost::rename(from, to);
    const auto name = to.filename().string();
    if (name != "ckpt-20.index" && name != "ckpt-20.h5") return;
    if (blind) disk_->inject({Code::io, "open", name, 0, 1});
    throw Error(Code::io, "cannot rename", "Input/output error").at(from.string());
  }
  bool blind = false;

 private:
  std::shared_ptr<io::MemoryFileSystem> disk_;
};

TEST_P(Sequences, ACommitThatIsReportedAsAnErrorCounts) {
  options_.write.file_system = std::make_shared<LyingDisk>(files_);
  for (const auto format : {Format::bundle, Format::hdf5}) {
    if (format == Format::hdf5 && !hdf5::available()) continue;
    options_.store.format = format;
    options_.overwrite = true;
    job([&](Rank& rank) {
      rank.save(10);
      rank.save(20);
    });
    job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 20); });
  }
}

// Then nothing tells whether the save was committed: nothing of it is deleted, and the error says
// so.
TEST_P(Sequences, ACommitThatCannotBeToldIsNotUndone) {
  const auto disk = std::make_shared<LyingDisk>(files_);
  disk->blind = true;
  options_.write.file_system = disk;
  options_.keep.last = 1;
  options_.overwrite = true;
  for (const auto format : {Format::bundle, Format::hdf5}) {
    if (format == Format::hdf5 && !hdf5::available()) continue;
    options_.store.format = format;
    job([&](Rank& rank) {
      rank.save(10);
      expect_error(rank, Code::durability_unknown, "it cannot be told whether",
                   [&] { rank.save(20); });
      EXPECT_EQ(rank.latest(), 20);
    });
    job([&](Rank& rank) {
      EXPECT_EQ(rank.latest(), 20);
      rank.save(30);  // the index is read again, and found
      EXPECT_THAT(rank.steps(), ElementsAre(30));
    });
    job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 30); });
  }
}

TEST_P(Sequences, WhatCouldNotBeReadAtTheOpeningIsLookedAtAgain) {
  job([&](Rank& rank) {
    for (const int step : {10, 20, 30}) rank.save(step);
  });
  files_->inject({Code::io, "open", "ckpt-20", 0, 999});
  files_->inject({Code::io, "open", "ckpt-30", 0, 999});
  job([&](Rank& rank) {
    EXPECT_EQ(rank.manager.steps().size(), 3u);
    files_->clear_faults();
    EXPECT_EQ(rank.latest(), 30);
    for (const auto& info : rank.manager.steps()) EXPECT_EQ(info.damage, "") << info.step;
  });
}

TEST_P(Sequences, WhatIsDamagedStaysSoWhenOthersCanBeReadAgain) {
  job([&](Rank& rank) {
    for (const int step : {10, 20, 30}) rank.save(step);
  });
  for (const auto& name : files_->list("/run")) {
    if (name.starts_with("ckpt-20.data-00000-of-")) files_->rot("/run/" + name, 0);
  }
  files_->inject({Code::io, "open", "ckpt-30.index", 0, 1000});
  files_->inject({Code::no_space, "create", ".cairn/damaged", 0, 1000});  // it is not noted
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->clear_faults();
    rank.group->barrier();
    const auto steps = rank.manager.steps();
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_NE(steps[1].damage, "");
    EXPECT_EQ(steps[2].damage, "");
  });
}

TEST_P(Sequences, ACommitThatCouldNotBeToldAndDidNotHappenIsForgotten) {
  job([&](Rank& rank) {
    rank.save(10);
    if (rank.group->rank() == 0) {
      files_->inject({Code::io, "rename", "/run/ckpt-20.index", 0, 1});
      files_->inject({Code::io, "open", "/run/ckpt-20.index", 0, 1000});
    }
    rank.group->barrier();
    expect_error(rank, Code::durability_unknown, "it cannot be told whether",
                 [&] { rank.save(20); });
    rank.group->barrier();
    files_->clear_faults();
    EXPECT_THAT(rank.steps(), ElementsAre(10));
    const auto report = rank.manager.restore_latest(rank.state);
    ASSERT_TRUE(report);
    EXPECT_THAT(report->skipped, ElementsAre());
    EXPECT_EQ(report->step, 10);
  });
}

// An index is set aside, and can neither be removed nor get its name back.
TEST_P(Sequences, ARemovalThatStoppedHalfwayIsBegunAgain) {
  options_.keep.last = 1;
  job([&](Rank& rank) {
    rank.save(1);
    if (rank.group->rank() == 0) {
      files_->inject({Code::io, "remove", "ckpt-1.index.aside", 0, 1});
      files_->inject({Code::io, "rename", "ckpt-1.index", 1, 1});
    }
    rank.group->barrier();
    rank.save(2);
    rank.group->barrier();
    files_->clear_faults();
    rank.save(3);
    EXPECT_THAT(rank.steps(), ElementsAre(3));
  });
  job([&](Rank& rank) {
    EXPECT_THAT(rank.steps(), ElementsAre(3));
    EXPECT_EQ(rank.latest(), 3);
  });
}

// At the very first save nothing else tells that the data in the directory is ours.
TEST_P(Sequences, WhatAFailedSaveCouldNotRemoveGoesWithTheNextOwner) {
  job([&](Rank& rank) {
    if (rank.group->rank() == 0) {
      files_->inject({Code::io, "rename", "/run/ckpt-10.index", 0, 1});
      files_->inject({Code::io, "remove", "/run/ckpt-10.data-00000", 0, 1});
    }
    rank.group->barrier();
    try {
      rank.save(10);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::Not(test::Says("may still complete it")));
    }
  });
  files_->clear_faults();
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 0); });
  EXPECT_THAT(files_->list("/run"), ElementsAre(".cairn"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sequences, testing::Values(1, 3));

}  // namespace
}  // namespace cairn
