// Saves without atomic rename, besides the crash stories: when they are chosen, what comes back
// when a save cannot be completed, killed processes, merges and savers.
#include <gmock/gmock.h>

#include <iostream>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/sharded_save.hpp"
#include "store/commit/names.hpp"
#include "store/directory/direct_kit.hpp"
#include "store/directory/recovery.hpp"
#include "support/memory_run.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST_F(Direct, LeavesAnOrdinaryCheckpoint) {
  save(10, 1);
  save(20, 2);
  EXPECT_THAT(listing(), ElementsAre(".cairn", "checkpoint", "ckpt-10.data-00000-of-00002",
                                     "ckpt-10.data-00001-of-00002", "ckpt-10.index",
                                     "ckpt-20.data-00000-of-00002", "ckpt-20.data-00001-of-00002",
                                     "ckpt-20.index"));
  EXPECT_THAT(disk_->list("/run/.cairn"),
              ElementsAre("lock", "no-atomic-rename", "sequences.2097152", "status.ckpt"));
  for (const auto* prefix : {"/run/ckpt-10", "/run/ckpt-20"}) {
    EXPECT_TRUE(verify_checkpoint({*disk_, prefix}).verdict() == Verdict::whole);
  }
  EXPECT_EQ(latest(), 2);
}

// Checks the names while a save is under way.
TEST_F(Direct, DataIsUnderItsFinalNamesBeforeTheIndex) {
  save(10, 1);
  std::vector<std::string> seen;
  disk_->set_observer([&](const std::string& text) {
    EXPECT_EQ(text.find("rename"), text.npos) << text;
    if (text == "create /run/ckpt-20.index") seen = disk_->list("/run");
  });
  save(20, 2);
  disk_->set_observer({});
  EXPECT_THAT(seen, testing::Contains(testing::MatchesRegex("ckpt-20.part_[0-9a-f]{32}")));
  EXPECT_THAT(
      seen, testing::IsSupersetOf({"ckpt-20.data-00000-of-00002", "ckpt-20.data-00001-of-00002"}));
}

TEST_F(Direct, TheDirectoryRemembers) {
  save(10, 1);
  auto options = options_on(disk_);
  options.write.atomic_rename = true;
  One(options).save(20, 2);
  EXPECT_EQ(latest(), 2);
}

TEST_F(Direct, ARefusedRenameIsNoticed) {
  auto options = options_on(disk_);
  options.write.atomic_rename = true;
  One(options).save(10, 1);
  EXPECT_TRUE(io::exists(*disk_, note));
  EXPECT_EQ(One(options).latest(), 1);
}

TEST_F(Direct, ANoteByHandIsEnough) {
  io::create_directories(*disk_, "/run/.cairn");
  io::write_file(*disk_, note, "");
  CheckpointOptions options;
  options.write.file_system = disk_;
  std::int64_t value = 4;
  State state;
  state.add("value", value);
  {
    Checkpoint checkpoint(serial_group(), state, options);
    checkpoint.write("/run/best");
    value = 5;
    EXPECT_EQ(checkpoint.write("/run/best"), "/run/best");
    checkpoint.save("/run/ckpt");
  }
  EXPECT_EQ(BundleReader("/run/best", disk_).read("value"), std::string("\5\0\0\0\0\0\0\0", 8));
  EXPECT_THAT(listing(), Not(testing::Contains(HasSubstr("part"))));
}

TEST_F(Direct, OptionsOfCheckpointAndShardedSave) {
  State state;
  std::int64_t value = 4;
  state.add("value", value);
  CheckpointOptions options;
  options.write.file_system = disk_;
  options.write.atomic_rename = false;
  Checkpoint(serial_group(), state, options).write("/run/best");
  EXPECT_TRUE(io::exists(*disk_, note));
  disk_ = new_disk();
  ShardedOptions sharded;
  sharded.write.file_system = disk_;
  sharded.write.atomic_rename = false;
  const Mesh mesh({{"x", 1}});
  sharded_save(serial_group(), mesh, "/run/best", {"value"}, {""}, {whole(&value, {})}, sharded);
  EXPECT_TRUE(io::exists(*disk_, note));
}

TEST_F(Direct, RanksMustAgree) {
  run_threads(3, [&](std::shared_ptr<Group> group) {
    auto options = options_on(disk_);
    options.write.atomic_rename = group->rank() != 1;
    try {
      CheckpointManager manager(group, "/run", options);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), test::Says("atomic_rename is true"));
    }
  });
}

TEST_F(Direct, EveryFileOperationMayFailAndTheOldOneStays) {
  int failed = 0, hopeless = 0;
  for (const std::size_t times : {1u, 3u}) {
    for (std::size_t skip = 0; skip < 80; skip += test::stride(3)) {
      disk_ = new_disk();
      {
        One one(options_on(disk_));
        one.save(10, 1);
        disk_->inject({Code::io, "", "", skip, times});
        try {
          one.save(10, 2);
        } catch (const Error& error) {
          ++failed;
          disk_->clear_faults();
          const bool withdrawn =
              std::string(error.what()).find("a restart may") == std::string::npos;
          hopeless += !withdrawn;
          if (error.code() == Code::io && withdrawn) {
            EXPECT_EQ(one.latest(), 1) << skip;
          }
        }
        disk_->clear_faults();
        one.save(20, 3);
        EXPECT_EQ(one.latest(), 3) << "the manager stays usable";
        const auto found = one.manager.restore(10, one.state);
        EXPECT_TRUE(one.values.front() == 1 || one.values.front() == 2) << skip;
      }
      EXPECT_EQ(latest(), 3);
      EXPECT_THAT(listing(), Not(testing::Contains(HasSubstr("part")))) << skip;
    }
  }
  EXPECT_GT(failed, test::sanitized ? 13 : 40);
  EXPECT_GT(hopeless, 0) << "three failures in a row keep the old index away for a while";
}

// When a process is killed, the power failure after its successor has begun decides what is
// durable. Nothing on which the successor builds may vanish then.
TEST_F(Direct, AKillThenAPowerFailureDuringTheRecovery) {
  std::size_t kills = 0, states = 0;
  for (bool died = true; died; kills += test::stride(3)) {
    disk_ = new_disk();
    save(10, 1);
    disk_->mark();
    std::size_t left = kills;
    died = false;
    disk_->set_observer([&](const std::string&) {
      if (died || left-- == 0) {
        died = true;
        throw Crashed{};
      }
    });
    try {
      One(options_on(disk_)).save(10, 2);
    } catch (const Crashed&) {
    }
    disk_->set_observer({});
    const auto begin = disk_->operation_count();
    const auto found = latest();
    EXPECT_TRUE(found == 1 || found == 2) << "killed at operation " << kills;
    for (std::size_t stop = begin; stop <= disk_->operation_count(); ++stop) {
      const auto choices = disk_->crash_choices(stop);
      for (std::size_t c = 0; c < choices.size(); c += test::state_step(3, 31)) {
        ++states;
        const auto after = disk_->crash(stop, choices[c]);
        std::int64_t now = -1;
        try {
          now = One(options_on(after)).latest();
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
        if (now != 1 && now != 2) {
          FAIL() << "found " << now << ": killed at " << kills << ", then "
                 << disk_->describe(stop, choices[c]);
        }
        for (const auto& name : after->list("/run")) {
          EXPECT_EQ(name.find(".part_"), name.npos) << name;
        }
      }
    }
  }
  EXPECT_GT(kills, 30u);
  std::cout << "[ STATES   ] " << states << " power failures after " << kills << " kills\n";
}

std::vector<RecoveryStep> plan_of_recovery(const std::shared_ptr<io::MemoryFileSystem>& disk) {
  const auto group = serial_group();
  return plan_recovery({disk, "/run", "ckpt", false}, {*group, {0}});
}

std::vector<std::string> what_goes(const std::vector<RecoveryStep>& plan) {
  std::vector<std::string> gone;
  for (const auto& step : plan) {
    if (!step.completes) gone.push_back(step.entry);
  }
  return gone;
}

// All bytes were durable, but they are damaged when the next job looks at them.
TEST_F(Direct, TheOldIndexComesBackWhenTheNewBytesAreDamaged) {
  save(10, 1);
  {
    One one(options_on(disk_));
    die_at(disk_, "create /run/ckpt-10.index", [&] { one.save(10, 2); });
  }
  EXPECT_FALSE(io::exists(*disk_, "/run/ckpt-10.index"));
  flip("/run/ckpt-10.data-00000-of-00003");
  const auto plan = plan_of_recovery(disk_);
  ASSERT_FALSE(plan.empty());
  EXPECT_EQ(plan.front().entry, "ckpt-10.index");
  EXPECT_TRUE(plan.front().completes);
  EXPECT_THAT(plan.front().why, test::Says("comes back"));
  EXPECT_THAT(what_goes(plan),
              UnorderedElementsAre(HasSubstr("ckpt-10.part_"), "ckpt-10.data-00000-of-00003",
                                   "ckpt-10.data-00001-of-00003", "ckpt-10.data-00002-of-00003"));
  EXPECT_EQ(latest(), 1);
  EXPECT_THAT(listing(), ElementsAre(".cairn", "checkpoint", "ckpt-10.data-00000-of-00002",
                                     "ckpt-10.data-00001-of-00002", "ckpt-10.index"));
}

TEST_F(Direct, NothingStaysOfANewStepWhoseBytesAreDamaged) {
  save(10, 1);
  {
    One one(options_on(disk_));
    die_at(disk_, "create /run/ckpt-20.index", [&] { one.save(20, 2); });
  }
  flip("/run/ckpt-20.data-00000-of-00002");
  EXPECT_THAT(what_goes(plan_of_recovery(disk_)),
              UnorderedElementsAre("ckpt-20.index", HasSubstr("ckpt-20.part_"),
                                   "ckpt-20.data-00000-of-00002", "ckpt-20.data-00001-of-00002"));
  EXPECT_EQ(latest(), 1);
  EXPECT_THAT(listing(), ElementsAre(".cairn", "checkpoint", "ckpt-10.data-00000-of-00002",
                                     "ckpt-10.data-00001-of-00002", "ckpt-10.index"));
}

// What an earlier save of the step left must not come back over a later one.
TEST_F(Direct, OnlyTheLatestOldIndexComesBack) {
  save(10, 1);
  {
    One one(options_on(disk_));
    disk_->inject({Code::io, "remove", "record-", 0, 1});
    one.save(10, 2);
    EXPECT_THAT(listing(), testing::Contains(HasSubstr(".part_"))) << "tidying failed";
    die_at(disk_, "create /run/ckpt-10.index", [&] { one.save(10, 3); });
  }
  for (const auto& name : listing()) {
    if (name.find(".part_") == name.npos) continue;
    for (const auto& file : disk_->list("/run/" + name)) {
      if (file.starts_with("record-")) disk_->remove("/run/" + name + "/" + file);
    }
  }
  EXPECT_EQ(latest(), 2);
}

// Files that the tidying after an overwrite has left must not bring back a step that retention
// removed.
TEST_F(Direct, ARemovedStepStaysAway) {
  save(10, 1);
  {
    auto options = options_on(disk_);
    options.keep.last = 1;
    One one(options);
    disk_->inject({Code::io, "remove", "record-", 0, 1});
    one.save(10, 2);
    EXPECT_THAT(listing(), testing::Contains(HasSubstr(".part_"))) << "tidying failed";
    one.save(20, 3);
  }
  EXPECT_EQ(latest(), 3);
  for (const auto& name : listing()) EXPECT_EQ(name.find("ckpt-10"), name.npos) << name;
}

TEST_F(Direct, PinsAreKept) {
  auto options = options_on(disk_);
  options.keep.last = 1;
  One one(options);
  one.save(10, 1);
  one.manager.pin(10);
  one.save(20, 2);
  one.save(30, 3);
  EXPECT_EQ(one.manager.steps().size(), 2u);
  EXPECT_EQ(one.manager.restore(10, one.state).step, 10);
}

TEST_F(Direct, ATornIndexIsWrittenAgain) {
  save(10, 1);
  {
    One one(options_on(disk_));
    die_at(disk_, "sync /run/ckpt-20.index", [&] { one.save(20, 2); });
  }
  const auto bytes = io::read_file(*disk_, "/run/ckpt-20.index", 1 << 20);
  const auto written = test::all_but_statistics(*disk_, "/run/ckpt-20");
  disk_->remove("/run/ckpt-20.index");
  io::write_file(*disk_, "/run/ckpt-20.index", bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(latest(), 2);
  EXPECT_EQ(test::all_but_statistics(*disk_, "/run/ckpt-20"), written) << "to the bit";
}

// The directory was moved to a file system without renames, with a save in it that needs them.
TEST_F(Direct, ASaveThatNeedsRenamesIsNotCompletedWithoutThem) {
  disk_ = std::make_shared<io::MemoryFileSystem>();
  auto ordinary = options_on(disk_);
  ordinary.write.atomic_rename = true;
  One(ordinary).save(10, 1);
  {
    One one(ordinary);
    die_at(disk_, "rename /run/ckpt-10_temp_", [&] { one.save(10, 2); });
  }
  disk_->refuse_renames();
  EXPECT_EQ(One(ordinary).latest(), 1);
  EXPECT_THAT(listing(), Not(testing::Contains(HasSubstr("_temp_"))));
}

TEST_F(Direct, ASaverWritesBundles) {
  auto options = options_on(disk_);
  options.hooks.savers.push_back({"extra",
                                  [&](const std::string& prefix) {
                                    const std::int32_t seven = 7;
                                    BundleWriter writer(prefix + "mine", disk_);
                                    writer.add("extra/seven", DType::int32, {}, &seven);
                                    writer.finish();
                                    return std::vector<std::string>{prefix + "mine"};
                                  },
                                  [](const std::string&) {}});
  {
    One one(options);
    one.save(10, 1);
    one.save(10, 2);
  }
  EXPECT_EQ(BundleReader("/run/ckpt-10", disk_).read("extra/seven"), std::string("\7\0\0\0", 4));
  EXPECT_TRUE(verify_checkpoint({*disk_, "/run/ckpt-10"}).verdict() == Verdict::whole);
  EXPECT_EQ(One(options).latest(), 2);
}

// A merge leaves no records: the checkpoint that it was replacing comes back, unless the merge was
// done.
TEST_F(Direct, EveryCrashOfAMergeLeavesTheOldOrTheNewOne) {
  io::create_directories(*disk_, "/run/.cairn");
  io::write_file(*disk_, note, "");
  for (const std::int32_t value : {1, 2}) {
    const auto prefix = cat("/run/in-", value);
    BundleWriter writer(prefix, disk_);
    writer.add("value", DType::int32, {}, &value);
    writer.finish();
  }
  MergeOptions options;
  options.file_system = disk_;
  options.overwrite = true;
  merge_checkpoints({"/run/in-1"}, "/run/out", options);
  disk_->mark();
  merge_checkpoints({"/run/in-2"}, "/run/out", options);
  std::size_t states = 0;
  for (std::size_t stop = 0; stop <= disk_->operation_count(); ++stop) {
    for (const auto& choice : disk_->crash_choices(stop)) {
      ++states;
      const auto after = disk_->crash(stop, choice);
      const auto group = serial_group();
      Location place{after, "/run", commit::Naming("out", false)};
      place.atomic_rename = false;
      {
        const auto owner = commit::Ownership::take(after, "/run", 0);
        recover(place, {*group, {0}}, &owner);
      }
      const auto value = BundleReader("/run/out", after).read("value");
      EXPECT_TRUE(value == std::string("\1\0\0\0", 4) || value == std::string("\2\0\0\0", 4))
          << disk_->describe(stop, choice);
      int files = 0;
      for (const auto& name : after->list("/run")) {
        EXPECT_EQ(name.find(".part_"), name.npos) << name;
        files += name.starts_with("out.");
      }
      // The files are an index, data and metadata; an overwritten step has one empty file more.
      EXPECT_EQ(files, value.front() == 1 ? 3 : 4) << disk_->describe(stop, choice);
    }
  }
  std::cout << "[ STATES   ] Merge: " << states << " crash states\n";
}

}  // namespace
}  // namespace cairn
