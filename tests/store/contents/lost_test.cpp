// Checkpoints that somebody has made invisible: they are named, passed over with a warning, kept
// for a repair, and replaced by a later save; none of those that were removed on purpose is among
// them.
#include "store/contents/lost.hpp"

#include <mutex>

#include "cairn/bundle.hpp"
#include "cairn/checkpoint.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/lost_kit.hpp"
#include "store/directory/retention.hpp"
#include "support/manager_kit.hpp"
#include "support/rounds.hpp"
#include "support/says.hpp"
#include "tools/repair.hpp"

namespace cairn {
namespace {

using lost::Disk;
using lost::names_of;
using lost::repair;
using lost::replace;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_P(Manager, ARemovedIndexIsNamedPassedOverAndReplaced) {
  std::mutex mutex;
  std::string warnings;
  set_log_sink([&](LogLevel level, std::string_view text) {
    const std::lock_guard guard(mutex);
    if (level == LogLevel::warning) warnings += cat(text, '\n');
  });
  job([&](Rank& rank) {
    for (int step = 1; step <= 3; ++step) rank.save(step * 10);
  });
  files_->remove("/run/ckpt-30.index");
  const auto before = names_of(*files_, "ckpt-30");
  for (const bool read_only : {true, false, false}) {
    warnings.clear();
    options_.read_only = read_only;
    job([&](Rank& rank) {
      const auto steps = rank.manager.steps();
      ASSERT_EQ(steps.size(), 3u);
      EXPECT_EQ(steps[2].step, 30);
      EXPECT_EQ(steps[2].sequence, 3);
      EXPECT_THAT(steps[2].damage, test::Says("ckpt-30.index is missing"));
      EXPECT_TRUE(steps[1].newest);
      const auto report = rank.manager.restore_latest(rank.state);
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, 20);
      EXPECT_THAT(report->skipped, ElementsAre(test::Says("ckpt-30.index is missing")));
      expect_error(rank, Code::data_loss, "cairn verify --repair",
                   [&] { rank.manager.restore(30, rank.state); });
    });
    EXPECT_THAT(warnings, test::Says("passed over: step 30: "));
    EXPECT_EQ(names_of(*files_, "ckpt-30"), before);
    EXPECT_EQ(verify_checkpoint({*files_, "/run/ckpt-30"}).verdict(), Verdict::damaged);
  }
  options_.restore.fall_back = false;
  job([&](Rank& rank) {
    expect_error(rank, Code::data_loss, "can be restored", [&] { rank.latest(); });
    rank.save(30);
    EXPECT_EQ(rank.latest(), 30);
  });
  set_log_sink({});
  EXPECT_EQ(find_lost(*files_, "/run").size(), 0u);
  for (const auto& name : before) EXPECT_FALSE(files_->status("/run/" + name)) << name;
}

TEST_P(Manager, OnlyLostOnesIsAnError) {
  for (const auto format : {Format::bundle, Format::hdf5}) {
    if (format == Format::hdf5 && !hdf5::available()) continue;
    options_.store.format = format;
    job([&](Rank& rank) { rank.save(format == Format::bundle ? 1 : 2); });
    if (format == Format::hdf5) replace(*files_, "/run/ckpt-2.h5", "");
    if (format == Format::bundle) files_->remove("/run/ckpt-1.index");
    job([&](Rank& rank) {
      expect_error(rank, Code::data_loss, "no checkpoint in /run can be restored",
                   [&] { rank.latest(); });
    });
  }
}

TEST_P(Manager, ARepairGivesTheCheckpointBack) {
  job([&](Rank& rank) {
    rank.save(10);
    rank.save(20);
  });
  const auto index = io::read_file(*files_, "/run/ckpt-20.index", 1 << 20);
  for (const auto* how : {"removed", "empty", "flipped", "cut"}) {
    SCOPED_TRACE(how);
    auto bytes = index;
    bytes[30] ^= 1;
    if (*how == 'r') files_->remove("/run/ckpt-20.index");
    if (*how == 'e') replace(*files_, "/run/ckpt-20.index", "");
    if (*how == 'f') replace(*files_, "/run/ckpt-20.index", bytes);
    if (*how == 'c') replace(*files_, "/run/ckpt-20.index", index.substr(0, index.size() / 2));
    job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 10); });
    const auto repaired = repair(files_, "/run/ckpt-20");
    EXPECT_THAT(repaired.done, ElementsAre(test::Says("ckpt-20.index was put back")));
    EXPECT_THAT(repaired.left, IsEmpty());
    EXPECT_EQ(repaired.after.verdict(), Verdict::whole);
    EXPECT_EQ(io::read_file(*files_, "/run/ckpt-20.index", 1 << 20), index);
    EXPECT_THAT(state_file(), HasSubstr("model_checkpoint_path: \"ckpt-20\""));
    job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 20); });
  }
}

// If the values of a rank do not change, its files are the same in each checkpoint.
TEST_P(Manager, ARepairTakesADataFileFromAnotherCheckpoint) {
  if (GetParam() < 3) GTEST_SKIP() << "one file for each of three ranks";
  job([&](Rank& rank) {
    for (const std::int64_t step : {10, 20}) {
      rank.step = step;
      rank.value = rank.group->rank() == 2 ? static_cast<double>(step) : 7;
      rank.manager.save(step, rank.state);
    }
  });
  const auto path = [&](int file) {
    return cat("/run/ckpt-20.data-0000", file, "-of-0000", GetParam() + 1);
  };
  const auto good = io::read_file(*files_, path(1), 1 << 20);
  for (const bool removed : {false, true}) {
    if (removed) files_->remove(path(1));
    if (!removed) flip(path(1), 3);
    job([&](Rank& rank) {  // marks the damage
      EXPECT_EQ(rank.manager.restore_latest(rank.state)->step, 10);
    });
    const auto repaired = repair(files_, "/run/ckpt-20");
    EXPECT_THAT(repaired.done, ElementsAre(test::Says("was copied from ckpt-10.data-00001")));
    EXPECT_EQ(repaired.after.verdict(), Verdict::whole);
    EXPECT_EQ(io::read_file(*files_, path(1), 1 << 20), good);
    job([&](Rank& rank) { EXPECT_EQ(rank.manager.restore_latest(rank.state)->step, 20); });
  }
  // The files of other checkpoints have other bytes; and the bytes are checked, whatever an index
  // says of them.
  flip(path(2), 3);
  EXPECT_THAT(repair(files_, "/run/ckpt-20").left, ElementsAre(test::Says("no other checkpoint")));
  flip(path(1), 3);
  flip(cat("/run/ckpt-10.data-00001-of-0000", GetParam() + 1), 2);
  const auto two = repair(files_, "/run/ckpt-20");
  EXPECT_THAT(two.done, IsEmpty());
  EXPECT_EQ(two.left.size(), 2u);
  EXPECT_EQ(names_of(*files_, ".cairn/repair").size(), 0u);
}

// Neither a name nor data alone proves that there was a checkpoint.
TEST_F(Lost, WithoutEvidenceItIsDebris) {
  job().save(1, 1);
  job().save(2, 2);
  files_->remove("/run/ckpt-2.index");
  auto state = commit::read_state_file(*files_, "/run").value();
  std::erase(state.all_paths, "ckpt-2");
  state.timestamps.clear();
  state.model_checkpoint_path = "ckpt-1";
  commit::write_state_file(*files_, "/run", "ckpt", state);
  EXPECT_THAT(find_lost(*files_, "/run"), IsEmpty());
  test::expect_error(Code::not_found, test::Says("there is no checkpoint"),
                     [&] { repair(files_, "/run/ckpt-2"); });
  EXPECT_EQ(job().manager.steps().size(), 1u);
  EXPECT_THAT(names_of(*files_, "ckpt-2"), IsEmpty());
}

// Wherever a job dies, a checkpoint that was removed on purpose does not count as lost.
TEST_F(Lost, WhatRetentionRemovesNeverComesBack) {
  options_.keep.last = 1;
  for (const int kind : {0, 1, 2, 3}) {
    const bool full = kind % 2;
    options_.store.format = kind < 2 ? Format::bundle : Format::hdf5;
    if (kind >= 2 && !hdf5::available()) continue;
    SCOPED_TRACE(kind);
    auto disk = std::make_shared<io::MemoryFileSystem>();
    {
      auto one = job(disk);
      one.save(1, 1);
      disk->mark();
      // There is no room for the state file: after the save, before the removal, and once more.
      if (full) disk->inject({Code::no_space, "write", "checkpoint.tmp", 0, 3});
      one.save(2, 2);
    }
    disk->clear_faults();
    std::size_t states = 0;
    for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
      for (const auto& choice : disk->crash_choices(stop)) {
        const auto after = disk->crash(stop, choice);
        const auto context = disk->describe(stop, choice);
        // The same holds for tools before a job recovers the directory; but they may see a
        // half-done save.
        for (const auto& lost : find_lost(*after, "/run")) ADD_FAILURE() << lost.why << context;
        auto next = job(after);
        EXPECT_NE(next.latest(), -1) << context;
        for (const auto& info : next.manager.steps()) EXPECT_EQ(info.damage, "") << context;
        ++states;
      }
    }
    EXPECT_GT(states, 50u);
  }
}

// The same for a checkpoint whose parts a merge has moved: the state file lists one part, and a
// note tells of the other.
TEST_F(Lost, WhatAMergeRemovesNeverComesBack) {
  auto disk = std::make_shared<io::MemoryFileSystem>();
  job(disk).save(1, 1);
  double v = 2;
  State state;
  state.add("v", v);
  CheckpointOptions options;
  options.write.file_system = disk;
  Checkpoint(serial_group(), state, options).write("/run/part");
  disk->mark();
  MergeOptions merge;
  merge.remove_inputs = true;
  merge.file_system = disk;
  merge_checkpoints({"/run/ckpt-1", "/run/part"}, "/run/all", merge);
  for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
    for (const auto& choice : disk->crash_choices(stop)) {
      const auto after = disk->crash(stop, choice);
      for (const auto& lost : find_lost(*after, "/run")) {
        ADD_FAILURE() << lost.why << disk->describe(stop, choice);
      }
    }
  }
}

// A save over a lost step dies or fails: the old data stays for a repair, and a repair brings back
// nothing that was not committed. Some also die while the next job recovers the directory.
TEST_F(Lost, ASaveOverALostStepMayDie) {
  options_.overwrite = true;
  std::size_t states = 0, repaired = 0;
  const auto survives = [&](const Disk& disk, std::size_t stop, const io::CrashChoice& choice,
                            bool again) {
    auto after = disk->crash(stop, choice);
    SCOPED_TRACE(disk->describe(stop, choice));
    const auto found = job(after).latest();
    EXPECT_TRUE(found == 1 || found == 3);
    ++states;
    const auto end = after->operation_count();
    for (std::size_t second = 0; again && second <= end; second += test::state_step(3, 7)) {
      for (const auto& lost : after->crash_choices(second)) {
        SCOPED_TRACE(after->describe(second, lost));
        auto last = after->crash(second, lost);
        EXPECT_EQ(job(last).latest(), found);
        if (found == 1) {
          EXPECT_EQ(repair(last, "/run/ckpt-2").after.verdict(), Verdict::whole);
        }
        EXPECT_EQ(job(last).latest(), found == 1 ? 2 : 3);
      }
    }
    if (found == 3) return;
    ++repaired;
    EXPECT_EQ(repair(after, "/run/ckpt-2").after.verdict(), Verdict::whole);
    EXPECT_EQ(job(after).latest(), 2);
  };
  for (const bool fails : {false, true}) {
    for (const bool renames : {true, false}) {
      SCOPED_TRACE(cat(fails ? "fails" : "dies", renames ? "" : ", no renames"));
      auto disk = std::make_shared<io::MemoryFileSystem>();
      if (!renames) disk->refuse_renames();
      options_.write.atomic_rename = renames;
      {
        auto one = job(disk);
        one.save(1, 1);
        one.save(2, 2);
      }
      disk->remove("/run/ckpt-2.index");
      {
        auto one = job(disk);
        disk->mark();
        if (fails) disk->inject({Code::io, renames ? "rename" : "create", ".index", 0, 1});
        if (fails) {
          EXPECT_THROW(one.save(2, 3), Error);
        }
        if (!fails) one.save(2, 3);
      }
      disk->clear_faults();
      for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
        const auto choices = disk->crash_choices(stop);
        for (std::size_t c = 0; c < choices.size(); c += test::state_step(2, 11)) {
          survives(disk, stop, choices[c], fails && c < 1 && stop % (5 * test::stride(5)) == 0);
        }
      }
    }
  }
  EXPECT_GT(repaired, test::rounds(100u));
  EXPECT_GT(states, repaired + test::rounds(50u));
}

// A repair that dies leaves what was there, or its result.
TEST_F(Lost, ARepairMayDie) {
  for (const bool renames : {true, false}) {
    for (const bool removed : {true, false}) {
      SCOPED_TRACE(cat(renames ? "renames" : "no renames", removed ? ", removed" : ", damaged"));
      auto disk = std::make_shared<io::MemoryFileSystem>();
      if (!renames) disk->refuse_renames();
      options_.write.atomic_rename = renames;
      job(disk).save(1, 1);
      job(disk).save(2, 2);
      if (removed) disk->remove("/run/ckpt-2.index");
      if (!removed) replace(*disk, "/run/ckpt-2.index", "what is this");
      disk->sync_directory("/run");
      disk->mark();
      EXPECT_EQ(repair(disk, "/run/ckpt-2").after.verdict(), Verdict::whole);
      for (std::size_t stop = 0; stop <= disk->operation_count(); ++stop) {
        for (const auto& choice : disk->crash_choices(stop)) {
          auto after = disk->crash(stop, choice);
          SCOPED_TRACE(disk->describe(stop, choice));
          const auto found = job(after).latest();
          EXPECT_TRUE(found == 1 || found == 2);
          EXPECT_EQ(repair(after, "/run/ckpt-2").after.verdict(), Verdict::whole);
          EXPECT_EQ(job(after).latest(), 2);
          EXPECT_FALSE(after->status("/run/.cairn/repair"));
        }
      }
    }
  }
}

TEST_F(Lost, NothingIsRepairedWhereSeveralSavesMayBeMeant) {
  job().save(1, 1);
  files_->remove("/run/ckpt-1.index");
  io::write_file(*files_, "/run/ckpt-1.data-00000-of-00007", "of another save");
  EXPECT_THAT(repair(files_, "/run/ckpt-1").left, ElementsAre(test::Says("of several saves")));
  files_->remove("/run/ckpt-1.data-00000-of-00007");
  const auto temp = cat("/run/ckpt-1_temp_", commit::new_uuid());
  files_->create_directory(temp);
  EXPECT_THAT(repair(files_, "/run/ckpt-1").left, ElementsAre(test::Says("did not finish")));
  files_->remove_directory(temp);
  EXPECT_EQ(repair(files_, "/run/ckpt-1").after.verdict(), Verdict::whole);
}

// Notes tell of checkpoints without a number.
TEST_F(Lost, ACheckpointWithoutANumberIsKnownByItsNote) {
  double u = 3;
  State state;
  state.add("u", u);
  CheckpointOptions options;
  options.write.file_system = files_;
  {
    Checkpoint checkpoint(serial_group(), state, options);
    checkpoint.write("/run/export");
    u = 4;
    checkpoint.write("/run/export");
  }
  files_->remove("/run/export.index");
  ASSERT_EQ(find_lost(*files_, "/run").size(), 1u);
  {
    Checkpoint checkpoint(serial_group(), state, options);
    test::expect_error(Code::data_loss, test::Says("is lost"),
                       [&] { checkpoint.read("/run/export"); });
    EXPECT_EQ(repair(files_, "/run/export").after.verdict(), Verdict::whole);
    u = 0;
    checkpoint.read("/run/export");
    EXPECT_EQ(u, 4);
  }
  // Data of another save under this name do not count as its data.
  files_->remove("/run/export.index");
  replace(*files_, "/run/.cairn/saved/export.index", commit::new_uuid());
  EXPECT_THAT(find_lost(*files_, "/run"), IsEmpty());
}

TEST(ListedCheckpoints, KeepTheirTimesWhenOthersGo) {
  io::MemoryFileSystem files;
  files.create_directory("/run");
  const commit::Naming name("ckpt", true);
  commit::write_state_file(files, "/run", name,
                           {"ckpt-3", {"ckpt-1", "ckpt-2", "ckpt-3"}, {100.5, 200, 300}, 50.});
  retire(files, "/run", name, {"/run/ckpt-2"});
  EXPECT_EQ(commit::read_state_file(files, "/run"),
            (commit::StateFile{"ckpt-3", {"ckpt-1", "ckpt-3"}, {100.5, 300}, 50.}));
  retire(files, "/run", name, {"/run/ckpt-3"});
  EXPECT_EQ(commit::read_state_file(files, "/run"),
            (commit::StateFile{"ckpt-1", {"ckpt-1"}, {100.5}, 50.}));
}

TEST_F(Lost, TheLatestCheckpointIsStillSaidToBeThere) {
  job().save(1, 1);
  files_->remove("/run/ckpt-1.index");
  EXPECT_EQ(latest_checkpoint(serial_group(), "/run", files_), "/run/ckpt-1");
  for (const auto& name : names_of(*files_, "ckpt-1")) files_->remove("/run/" + name);
  EXPECT_EQ(latest_checkpoint(serial_group(), "/run", files_), std::nullopt);
}

}  // namespace
}  // namespace cairn
