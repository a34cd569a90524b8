// What a directory reports to outsiders of a run whose saves fail.
#include "store/directory/save_status.hpp"

#include <filesystem>

#include "io/file_system.hpp"
#include "io/temporary_directory.hpp"
#include "support/manager_kit.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Status : public Manager {
 protected:
  // Collective: rank 0 writes it when all ranks have agreed that the save has failed.
  SaveStatus status(Rank& rank) {
    rank.group->barrier();
    const auto there = read_save_status({files_, "/run", commit::Naming("ckpt")});
    rank.group->barrier();
    return there.value_or(SaveStatus());
  }
  void fill_the_disk() { files_->inject({Code::no_space, "write", "ckpt-", 0, 1000}); }
};

TEST_P(Status, CountsTheFailuresInARowAndTellsOfTheLast) {
  job([&](Rank& rank) {
    rank.save(10);
    rank.group->barrier();
    EXPECT_EQ(status(rank), SaveStatus());
    rank.group->barrier();
    if (rank.group->rank() == 0) fill_the_disk();
    rank.group->barrier();
    for (const int step : {20, 30}) {
      expect_error(rank, Code::no_space, "", [&] { rank.save(step); });
    }
    const auto two = status(rank);
    EXPECT_EQ(two.failures, 2);
    EXPECT_EQ(two.failed_step, 30);
    EXPECT_EQ(two.code, "no_space");
    EXPECT_EQ(two.saved_step, 10);
    EXPECT_LE(two.since_seconds, two.failed_seconds);
    EXPECT_THAT(text_of(two, two.saved_seconds), StartsWith("the last 2 saves failed, since "));
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->clear_faults();
    rank.group->barrier();
    rank.save(40);
    rank.group->barrier();
    EXPECT_EQ(status(rank).failures, 0);
    EXPECT_EQ(status(rank).failed_step, 30);
    EXPECT_EQ(status(rank).saved_step, 40);
    EXPECT_THAT(text_of(status(rank), 0), StartsWith("saved again since the last failure"));
  });
}

TEST_P(Status, CountsWhatFailsBehindTheApplication) {
  job([&](Rank& rank) {
    rank.save(10);
    rank.group->barrier();
    if (rank.group->rank() == 0) fill_the_disk();
    rank.group->barrier();
    auto handle = rank.manager.save_async(20, rank.state);
    expect_error(rank, Code::no_space, "", [&] { rank.manager.wait(); });
    EXPECT_EQ(status(rank).failures, 1);
    EXPECT_EQ(status(rank).failed_step, 20);
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->clear_faults();
    rank.group->barrier();
    handle = rank.manager.save_async(30, rank.state);
    rank.manager.wait();
    rank.group->barrier();
    EXPECT_EQ(status(rank).failures, 0);
  });
}

// The next job continues the count.
TEST_P(Status, OutlivesTheJob) {
  for (int round = 1; round <= 2; ++round) {
    job([&](Rank& rank) {
      rank.group->barrier();
      if (rank.group->rank() == 0) fill_the_disk();
      rank.group->barrier();
      expect_error(rank, Code::no_space, "", [&] { rank.save(10); });
      EXPECT_EQ(status(rank).failures, round);
      rank.group->barrier();
      if (rank.group->rank() == 0) files_->clear_faults();
    });
  }
}

// The file exists before the disk is full; a failure to write it changes no error.
TEST_P(Status, IsWrittenInPlaceAndDoesNoHarm) {
  job([&](Rank& rank) {
    const auto there = files_->status("/run/.cairn/status.ckpt");
    ASSERT_TRUE(there);
    rank.group->barrier();
    if (rank.group->rank() == 0) {
      files_->inject({Code::no_space, "create", "", 0, 1000});
    }
    rank.group->barrier();
    expect_error(rank, Code::no_space, "", [&] { rank.save(10); });
    EXPECT_EQ(status(rank).failures, 1);
    EXPECT_EQ(files_->status("/run/.cairn/status.ckpt")->id, there->id);
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->inject({Code::io, "write", "status.", 0, 1000});
    rank.group->barrier();
    expect_error(rank, Code::no_space, "", [&] { rank.save(10); });
    rank.group->barrier();
    EXPECT_EQ(status(rank).failures, 1);
  });
}

// The file has another name in a backup by hard links, or is a link that somebody has put there.
TEST(SaveStatus, LeavesAloneWhatHasAnotherName) {
  const test::TemporaryDirectory scratch;
  const auto run = scratch.path() / "run", own = run / ".cairn" / "status.ckpt";
  const auto files = io::posix_file_system();
  double value = 1;
  State state;
  state.add("x", value);
  CheckpointManager manager(serial_group(), run, {});
  manager.save(1, state);
  const auto fail = [&] { EXPECT_THROW(manager.save(1, state), Error); };
  const auto failures = [&] {
    return read_save_status({files, run, commit::Naming("ckpt")}).value_or(SaveStatus()).failures;
  };
  fail();
  const auto copy = scratch.path() / "backup", other = scratch.path() / "other";
  std::filesystem::create_hard_link(own, copy);
  const auto before = io::read_file(*files, copy, 1 << 20);
  fail();
  EXPECT_EQ(failures(), 2);
  EXPECT_EQ(io::read_file(*files, copy, 1 << 20), before);
  io::write_file(*files, other, "somebody's");
  std::filesystem::remove(own);
  std::filesystem::create_symlink(other, own);
  fail();
  EXPECT_EQ(failures(), 3);
  EXPECT_EQ(io::read_file(*files, other, 1 << 20), "somebody's");
}

TEST(SaveStatus, IsWhatItPrintsOrNothing) {
  SaveStatus status{3, 1.5, 40, 2.25, "no_space", "", "process 1 on a", 30, 1.25};
  for (const auto& error : {std::string("it \"failed\"\n"), std::string(9000, 'x'),
                            std::string(5000, '\1'), std::string("\xff\xfe torn")}) {
    status.error = error;
    const auto text = status.print();
    EXPECT_EQ(text.size(), 4096U);
    const auto back = SaveStatus::parse(text);
    ASSERT_TRUE(back) << text;
    EXPECT_EQ(back->failures, 3);
    EXPECT_EQ(back->failed_seconds, 2.25);
    if (error.size() < 100 && error[0] == 'i') EXPECT_EQ(*back, status);
    for (const std::size_t at : {std::size_t{2}, std::size_t{30}, text.find("checksum") + 12}) {
      auto torn = text;
      torn[at] = torn[at] == '0' ? '1' : '0';
      EXPECT_FALSE(SaveStatus::parse(torn)) << at;
    }
  }
  for (const auto* text : {"", "{}", "[]", "null", "{\"checksum\": 1}", "{\"checksum\": \"0\"}"}) {
    EXPECT_FALSE(SaveStatus::parse(text)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Status, testing::Values(1, 2));

}  // namespace
}  // namespace cairn
