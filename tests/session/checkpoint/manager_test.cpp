// Which checkpoint is the newest, what may be overwritten, what is kept, and what damage does.
#include <gmock/gmock.h>

#include "base/text.hpp"
#include "layout/bundle/index.hpp"
#include "support/manager_kit.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::ElementsAre, testing::HasSubstr;

TEST_P(Manager, NothingThereIsNoError) {
  job([&](Rank& rank) {
    EXPECT_FALSE(rank.manager.restore_latest(rank.state));
    EXPECT_TRUE(rank.manager.steps().empty());
    expect_error(rank, Code::not_found, "there is no checkpoint /run/ckpt-3",
                 [&] { rank.manager.restore(3, rank.state); });
  });
}

TEST_P(Manager, SavesRestoresAndLists) {
  job([&](Rank& rank) {
    rank.save(10);
    rank.save(20);
    EXPECT_EQ(rank.latest(), 20);
    rank.manager.restore(10, rank.state);
    EXPECT_EQ(rank.seen(), 10);
  });
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 20);
    const auto contents = rank.manager.open(20);
    ASSERT_EQ(contents.tensors.size(), 2u);
    EXPECT_EQ(contents.find("value")->shape, Dims{rank.group->size()});
    EXPECT_EQ(contents.meta.value().step, 20);
    EXPECT_EQ(contents.meta.value().ranks, rank.group->size());
    const auto steps = rank.manager.steps();
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_TRUE(steps[1].newest);
  });
  EXPECT_THAT(state_file(), HasSubstr("model_checkpoint_path: \"ckpt-20\""));
}

TEST_P(Manager, NewestIsTheOneCommittedLast) {
  job([&](Rank& rank) {
    for (const int step : {50, 60, 100}) rank.save(step);
    rank.manager.restore(50, rank.state);
    rank.save(60);
    rank.value = 0;
  });
  EXPECT_THAT(state_file(), HasSubstr("model_checkpoint_path: \"ckpt-60\""));
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 60) << "not 100";
    const auto steps = rank.manager.steps();
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[0].step, 50);
    EXPECT_EQ(steps[1].step, 100);
    EXPECT_TRUE(steps[1].superseded);
    EXPECT_EQ(steps[2].step, 60);
    rank.save(100);  // left behind by the return to 50
    EXPECT_EQ(rank.latest(), 100);
    expect_error(rank, Code::already_exists, "step 100 exists", [&] { rank.save(100); });
  });
}

TEST_P(Manager, ALiveStepIsOverwrittenOnlyWhenAskedFor) {
  job([&](Rank& rank) {
    rank.save(10);
    rank.step = 77;
    expect_error(rank, Code::already_exists, "whole and nothing has superseded it",
                 [&] { rank.manager.save(10, rank.state); });
    EXPECT_EQ(rank.latest(), 10);
  });
  options_.overwrite = true;
  job([&](Rank& rank) {
    rank.step = 77;
    rank.manager.save(10, rank.state);
    rank.manager.restore(10, rank.state);
    EXPECT_EQ(rank.step, 77);
    EXPECT_THAT(rank.steps(), ElementsAre(10));
  });
}

TEST_P(Manager, FallsBackFromADamagedCheckpointAndSavesItAgain) {
  job([&](Rank& rank) {
    rank.save(90);
    rank.save(100);
  });
  flip(cat("/run/ckpt-100.data-00000-of-0000", GetParam() + 1), 3);
  job([&](Rank& rank) {
    const auto report = rank.manager.restore_latest(rank.state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 90);
    EXPECT_EQ(rank.seen(), 90);
    ASSERT_EQ(report->skipped.size(), 1u);
    EXPECT_THAT(report->skipped[0], HasSubstr("step 100: "));
    EXPECT_THAT(report->skipped[0], test::Says("not those that were written"));
  });
  EXPECT_THAT(state_file(), HasSubstr("model_checkpoint_path: \"ckpt-90\""));
  job([&](Rank& rank) {  // the mark outlives the process
    const auto report = rank.manager.restore_latest(rank.state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 90);
    EXPECT_EQ(report->skipped.size(), 1u);
    rank.save(100);
  });
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 100); });
}

TEST_P(Manager, ADamagedIndexIsPassedOver) {
  job([&](Rank& rank) {
    rank.save(90);
    rank.save(100);
  });
  flip("/run/ckpt-100.index", 20);
  job([&](Rank& rank) {
    const auto report = rank.manager.restore_latest(rank.state);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->step, 90);
    EXPECT_EQ(report->skipped.size(), 1u);
    rank.save(100);
    EXPECT_EQ(rank.latest(), 100);
  });
}

TEST_P(Manager, FallingBackCanBeTurnedOff) {
  job([&](Rank& rank) {
    rank.save(90);
    rank.save(100);
  });
  flip(cat("/run/ckpt-100.data-00000-of-0000", GetParam() + 1), 3);
  options_.restore.fall_back = false;
  job([&](Rank& rank) {
    expect_error(rank, Code::data_loss, "not those that were written", [&] { rank.latest(); });
    expect_error(rank, Code::data_loss, "can be restored", [&] { rank.latest(); });
  });
}

TEST_P(Manager, OnlyDamagedOnesIsAnError) {
  job([&](Rank& rank) { rank.save(1); });
  flip("/run/ckpt-1.index", 20);
  job([&](Rank& rank) {
    expect_error(rank, Code::data_loss, "no checkpoint in /run can be restored",
                 [&] { rank.latest(); });
  });
}

TEST_P(Manager, KeepsTheNewest) {
  options_.keep.last = 2;
  job([&](Rank& rank) {
    for (int step = 1; step <= 4; ++step) rank.save(step);
    EXPECT_THAT(rank.steps(), ElementsAre(3, 4));
    rank.manager.restore(3, rank.state);
    rank.save(4);
    EXPECT_THAT(rank.steps(), ElementsAre(3, 4));
  });
  for (const auto& file : files_->list("/run")) {
    EXPECT_TRUE(file == ".cairn" || file == "checkpoint" || file.starts_with("ckpt-3.") ||
                file.starts_with("ckpt-4."))
        << file;
  }
}

TEST_P(Manager, AddressesThatAreNoPathsAreRefused) {
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    {
      Rank rank(group, options_);
      rank.save(1);
      expect_error(rank, Code::unsupported, "'gs://bucket/run' is no path",
                   [&] { CheckpointManager(group, "gs://bucket/run", options_); });
    }
    group->barrier();
    CheckpointManager same(group, "file:///run", options_);
    EXPECT_EQ(same.directory(), "/run");
    EXPECT_EQ(same.steps().size(), 1u);
  });
}

TEST_P(Manager, AnotherJobOwnsTheDirectory) {
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    Rank first(group, options_);
    first.save(1);
    expect_error(first, Code::busy, "in use by this very process: /run",
                 [&] { CheckpointManager(group, "/run", options_); });
    expect_error(first, Code::busy, "saves under the name 'ckpt' there",
                 [&] { CheckpointManager(group, "/run", options_); });
    auto reading = options_;
    reading.read_only = true;
    Rank reader(group, reading);
    EXPECT_EQ(reader.latest(), 1);
    expect_error(reader, Code::invalid_argument, "read-only", [&] { reader.save(2); });
    first.save(2);
    EXPECT_EQ(reader.latest(), 2) << "a reader sees what the owner commits";
  });
}

TEST_P(Manager, BadInputIsOneErrorOnAllRanks) {
  job([&](Rank& rank) {
    rank.save(1);
    const int me = rank.group->rank(), ranks = rank.group->size();
    expect_error(rank, Code::invalid_argument, "step -1 is negative", [&] { rank.save(-1); });
    expect_error(rank, Code::invalid_argument, "is too high", [&] { rank.save(INT64_MAX); });
    expect_error(rank, Code::invalid_argument, "Steps go from 0 to 9223372036854775806.",
                 [&] { rank.manager.save_async(INT64_MAX, rank.state); });
    expect_error(rank, Code::not_found, "there is no step -1",
                 [&] { rank.manager.restore(-1, rank.state); });
    expect_error(rank, Code::not_found, "there is no step -1", [&] { rank.manager.open(-1); });
    if (ranks > 1) {
      expect_error(rank, Code::disagreement, "ranks disagree on the step",
                   [&] { rank.manager.save(me == 1 ? 3 : 2, rank.state); });
      State odd;
      double value = 0;
      float other = 0;
      me == 1 ? odd.add("x", other) : odd.add("x", value);
      expect_error(rank, Code::disagreement, "tensor 'x'", [&] { rank.manager.save(2, odd); });
      State gap;
      if (me != 1) gap.add("y", slice(&value, {ranks}, {me}, {1}));
      expect_error(rank, Code::coverage, "held by no rank", [&] { rank.manager.save(2, gap); });
    }
    State more;
    more.add("step", rank.step).add("extra", rank.value);
    expect_error(rank, Code::not_found, "tensor 'extra' is not in the checkpoint",
                 [&] { rank.manager.restore_latest(more); });
    State shape;
    std::vector<double> longer(9);
    shape.add("value", longer);
    expect_error(rank, Code::invalid_argument, "tensor 'value' is float64",
                 [&] { rank.manager.restore_latest(shape); });
    State part;
    part.add("step", rank.step);
    const auto report = rank.manager.restore_latest(part);
    ASSERT_TRUE(report);
    EXPECT_THAT(report->unused_keys, ElementsAre("value"));
    EXPECT_EQ(rank.latest(), 1) << "the older checkpoint is untouched";
  });
}

TEST_P(Manager, AFullDiskFailsTheSaveAndNothingElse) {
  job([&](Rank& rank) {
    rank.save(1);
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->inject({Code::no_space, "write", "part-", 0, 1});
    rank.group->barrier();
    expect_error(rank, Code::no_space, "", [&] { rank.save(2); });
    EXPECT_EQ(rank.latest(), 1);
    EXPECT_THAT(rank.steps(), ElementsAre(1));
    rank.save(3);
    EXPECT_EQ(rank.latest(), 3);
  });
  for (const auto& file : files_->list("/run")) EXPECT_EQ(file.find("_temp_"), file.npos) << file;
}

TEST_P(Manager, TooLittleSpaceIsSeenBeforeBytesMove) {
  job([&](Rank& rank) {
    rank.save(1);
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->set_capacity(1 << 20);
    rank.group->barrier();
    const auto before = files_->operation_count() + 1;  // which tells that a save has failed
    rank.group->barrier();
    expect_error(rank, Code::no_space, "nothing was written", [&] { rank.save(2); });
    rank.group->barrier();
    EXPECT_EQ(files_->operation_count(), before);
    rank.group->barrier();  // giving up the directory is an operation
  });
}

TEST_P(Manager, EveryFileOperationOfASaveMayFail) {
  int failed = 0;
  for (std::size_t skip = 0;; skip += test::stride(4)) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    bool hit = false;
    job([&](Rank& rank) {
      rank.save(1);
      rank.group->barrier();
      if (rank.group->rank() == 0) files_->inject({Code::io, "", "", skip, 1});
      rank.group->barrier();
      bool threw = false;
      try {
        rank.save(2);
      } catch (const Error& error) {
        threw = true;
        EXPECT_TRUE(error.code() == Code::io || error.code() == Code::durability_unknown)
            << error.what();
        if (error.code() == Code::io) {
          EXPECT_EQ(rank.latest(), 1);
        }
      }
      rank.group->barrier();
      if (rank.group->rank() == 0) {
        hit = threw;
        files_->clear_faults();
      }
      rank.group->barrier();
      rank.save(3);
      EXPECT_EQ(rank.latest(), 3) << "the manager stays usable";
    });
    failed += hit;
    job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 3); });
    if (skip > 200) break;
  }
  EXPECT_GT(failed, test::rounds(10)) << "each operation up to the commit fails the save";
}

TEST_P(Manager, FilesOfOthersAreNotTouched) {
  files_->create_directory("/run");
  const std::vector<std::string> others{"notes.txt", "ckpt-7.data-00000-of-00001", "other-1.index",
                                        "ckpt-x.index", "checkpoint.bak"};
  for (const auto& name : others) io::write_file(*files_, "/run/" + name, "theirs");
  job([](Rank&) {});
  for (const auto& name : others) EXPECT_TRUE(io::exists(*files_, "/run/" + name)) << name;
  job([&](Rank& rank) { rank.save(1); });
  job([](Rank&) {});
  EXPECT_FALSE(io::exists(*files_, "/run/" + others[1])) << "where we save, such a file is debris";
  for (const auto& name : others) {
    if (name == others[1]) continue;
    EXPECT_TRUE(io::exists(*files_, "/run/" + name)) << name;
  }
}

TEST_P(Manager, AMarkOfDamageGoesWithItsCheckpoint) {
  job([&](Rank& rank) {
    rank.save(90);
    rank.save(100);
  });
  flip(cat("/run/ckpt-100.data-00000-of-0000", GetParam() + 1), 3);
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 90); });
  EXPECT_TRUE(io::exists(*files_, "/run/.cairn/damaged/ckpt-100"));
  for (const auto& name : files_->list("/run")) {
    if (name.starts_with("ckpt-100.")) files_->remove("/run/" + name);
  }
  job([](Rank&) {});
  EXPECT_FALSE(io::exists(*files_, "/run/.cairn/damaged/ckpt-100"));
}

TEST_P(Manager, AReturnToAnEarlierStepLeavesTheHigherOnesBehindWhateverComesNext) {
  options_.keep.last = 3;
  job([&](Rank& rank) {
    for (const int step : {10, 20, 30}) rank.save(step);
    rank.manager.restore(10, rank.state);
    rank.save(40);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 30, 40)) << "10 was continued, 20 and 30 were not";
  });
  flip(cat("/run/ckpt-40.data-00000-of-0000", GetParam() + 1), 3);
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 10); });
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 10) << "nor does 30 come back later"; });
}

TEST_P(Manager, RetentionKeepsOtherProgramsCheckpoints) {
  job([&](Rank& rank) { rank.save(1); });
  // As if another program had left it: without our metadata.
  auto contents = bundle::parse_index(io::read_file(*files_, "/run/ckpt-1.index", 1 << 20));
  std::erase_if(contents.tensors, [](const auto& t) { return t.key.starts_with("_cairn/"); });
  const auto theirs = bundle::build_index(contents.num_files, contents.tensors);
  files_->remove("/run/ckpt-1.index");
  io::write_file(*files_, "/run/ckpt-1.index", theirs);
  io::write_file(*files_, "/run/ckpt-7.index", "a stranger's text");
  options_.keep.last = 1;
  job([&](Rank& rank) {
    for (const int step : {10, 20}) rank.save(step);
    rank.manager.restore(1, rank.state);
    EXPECT_EQ(rank.seen(), 1);
  });
  EXPECT_TRUE(io::exists(*files_, "/run/ckpt-1.index"));
  EXPECT_TRUE(io::exists(*files_, "/run/ckpt-7.index"));
  EXPECT_FALSE(io::exists(*files_, "/run/ckpt-10.index"));
}

TEST_P(Manager, WhatCannotBeReadNowIsNotTakenForDamaged) {
  job([&](Rank& rank) {
    rank.save(10);
    rank.save(20);
  });
  options_.keep.last = 1;
  files_->inject({Code::io, "open", "ckpt-20.index", 0, 1000});
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    rank.save(30);
  });
  files_->clear_faults();
  EXPECT_TRUE(io::exists(*files_, "/run/ckpt-20.index"));
}

TEST_P(Manager, RanksWithDifferentDirectoriesAreRefused) {
  if (GetParam() == 1) return;
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    options.keep.last += group->rank();  // the directory is looked at first
    test::expect_error(Code::disagreement, test::Says("ranks disagree on the directory"), [&] {
      CheckpointManager(group, group->rank() == 1 ? "/b" : "/a", options);
    });
  });
}

TEST_P(Manager, AReportedFailureStaysOne) {
  options_.write.part_records = true;
  job([&](Rank& rank) {
    rank.save(10);
    rank.group->barrier();
    if (rank.group->rank() == 0) {
      files_->inject({Code::io, "rename", ".data-", 0, 1});
      files_->inject({Code::io, "remove", "record-", 0, 1000});
    }
    rank.group->barrier();
    expect_error(rank, Code::io, "may still complete it", [&] { rank.save(20); });
    rank.group->barrier();
    expect_error(rank, Code::io, "", [&] { rank.save(20); });  // not before the first is gone
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->clear_faults();
    rank.group->barrier();
    rank.save(30);
  });
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 30);
    EXPECT_THAT(rank.steps(), ElementsAre(10, 30));
  });
}

TEST_P(Manager, AStateThatAsksForTooMuchMarksNothing) {
  job([&](Rank& rank) { rank.save(1); });
  auto contents = bundle::parse_index(io::read_file(*files_, "/run/ckpt-1.index", 1 << 20));
  if (GetParam() == 1) return;  // one rank's tensor is in one slice
  for (auto& tensor : contents.tensors) {
    if (tensor.key == "value") tensor.slices.pop_back();
  }
  const auto partial = bundle::build_index(contents.num_files, contents.tensors);
  files_->remove("/run/ckpt-1.index");
  io::write_file(*files_, "/run/ckpt-1.index", partial);
  job([&](Rank& rank) {
    expect_error(rank, Code::not_found, "is in no stored slice", [&] { rank.latest(); });
    State fits;
    fits.add("step", rank.step);
    EXPECT_TRUE(rank.manager.restore_latest(fits));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Manager, testing::Values(1, 2, 3, 7),
                         testing::PrintToStringParamName());

// The owner changes the directory while a reader restores the newest step.
TEST_P(Manager, AReaderThatChoosesAgainKeepsToItsOptions) {
  for (const bool fall_back : {true, false}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    options_.read_only = false;
    options_.hooks.savers = {{"s", [](const std::string&) { return std::vector<std::string>{}; },
                              [](const std::string&) {}}};
    job([](Rank& rank) {
      rank.save(10);
      rank.save(20);
    });
    options_.read_only = true;
    options_.restore.fall_back = fall_back;
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      auto options = options_;
      options.hooks.savers[0].restore = [&](const std::string& prefix) {
        if (!prefix.ends_with("-20")) return;
        if (group->rank() == 0) flip("/run/ckpt-20.index", 20);
        throw Error(Code::data_loss, "half of it is gone");
      };
      Rank rank(group, options);
      if (fall_back) {
        EXPECT_EQ(rank.latest(), 10);
      } else {
        expect_error(rank, Code::data_loss, "no checkpoint in /run can be restored (step 20: ",
                     [&] { rank.manager.restore_latest(rank.state); });
      }
    });
  }
}

// The owner goes on saving while a reader restores, so that each step is gone when the reader
// reaches it.
TEST_P(Manager, AReaderKeepsUpWithAnOwnerThatSavesOn) {
  if (GetParam() > 1) return;  // both take turns on one thread
  options_.keep.last = 1;
  options_.hooks.savers = {{"s", [](const std::string&) { return std::vector<std::string>{}; },
                            [](const std::string&) {}}};
  Rank owner(serial_group(), options_);
  owner.save(1);
  owner.manager.pin(1);  // whole, and too old
  std::int64_t step = 2;
  owner.save(step);
  auto options = options_;
  options.read_only = true;
  options.hooks.savers[0].restore = [&](const std::string& prefix) {
    if (step == 12 || prefix.ends_with("-1")) return;
    owner.save(++step);
    throw Error(Code::data_loss, "it is gone");
  };
  Rank reader(serial_group(), options);
  EXPECT_EQ(reader.latest(), 12);
}

}  // namespace
}  // namespace cairn
