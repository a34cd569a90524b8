// What is known of a checkpoint without its index, and the state files of several names.
#include "base/text.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "support/manager_kit.hpp"

namespace cairn {
namespace {

// Steps that a run left behind stay behind, even if the index that recorded this is gone.
TEST_P(Manager, ADestroyedIndexDoesNotBringAnAbandonedLineBack) {
  options_.keep.last = 0;
  job([&](Rank& rank) {
    for (int step = 1; step <= 3; ++step) rank.save(step * 10);
    rank.manager.restore(10, rank.state);
    rank.save(40);
  });
  for (const auto* how : {"flipped", "empty", "not readable now"}) {
    SCOPED_TRACE(how);
    if (*how == 'f') flip("/run/ckpt-40.index", 20);
    if (*how == 'e') {
      files_->remove("/run/ckpt-40.index");
      io::write_file(*files_, "/run/ckpt-40.index", "");
    }
    if (*how == 'n') files_->inject({Code::io, "open", "ckpt-40.index", 0, 1000});
    auto reading = options_;
    reading.read_only = true;
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Rank rank(group, reading);
      const auto report = rank.manager.restore_latest(rank.state);
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, 10);
      EXPECT_EQ(rank.manager.steps().back().step, 40);
      EXPECT_GT(rank.manager.steps().back().sequence, rank.manager.steps()[2].sequence);
    });
  }
  files_->clear_faults();
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    rank.save(50);
    EXPECT_EQ(rank.latest(), 50);
  });
}

// The same for an HDF5 file whose table, seal or end is damaged; if the evidence is damaged, too,
// nothing is made up.
TEST_P(Manager, ADamagedHdf5FileDoesNotBringAnAbandonedLineBack) {
  if (!hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
  options_.keep.last = 0;
  options_.store.format = Format::hdf5;
  job([&](Rank& rank) {
    for (int step = 1; step <= 3; ++step) rank.save(step * 10);
    rank.manager.restore(10, rank.state);
    rank.save(40);
  });
  const auto good = io::read_file(*files_, "/run/ckpt-40.h5", 1 << 30);
  const auto table =
      static_cast<std::size_t>(read_hdf5_table(*files_, "/run/ckpt-40.h5").table_offset);
  const auto place = good.find("cairn metadata: ");
  const auto meta = hdf5::find_meta_place(good);
  ASSERT_NE(place, good.npos);
  ASSERT_TRUE(meta);
  const auto expect = [&](const char* what, std::string bytes, std::int64_t step,
                          std::int64_t sequence) {
    SCOPED_TRACE(what);
    files_->remove("/run/ckpt-40.h5");
    io::write_file(*files_, "/run/ckpt-40.h5", bytes);
    auto reading = options_;
    reading.read_only = true;
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Rank rank(group, reading);
      const auto report = rank.manager.restore_latest(rank.state);
      ASSERT_TRUE(report);
      EXPECT_EQ(report->step, step);
      for (const auto& info : rank.manager.steps()) {
        if (info.step != 40) continue;
        EXPECT_EQ(info.sequence, sequence);
      }
    });
  };
  const auto with = [&](std::vector<std::size_t> flipped) {
    auto bytes = good;
    for (const auto at : flipped) bytes[at] = static_cast<char>(bytes[at] ^ 4);
    return bytes;
  };
  expect("nothing", good, 40, 4);
  expect("the table", with({table + 20}), 10, 4);
  expect("the seal", with({good.size() - 30}), 10, 4);
  expect("a cut end", good.substr(0, good.size() - 200), 10, 4);
  expect("more behind it", good + "and more", 10, 4);
  const auto in_meta = static_cast<std::size_t>(meta->offset) + 12;
  expect("table and metadata", with({table + 20, in_meta}), 30, 0);
  expect("table and place", with({table + 20, place + 17}), 30, 0);
  expect("table and word", with({table + 20, place + 2}), 30, 0);
  // A place beyond the end of the file.
  auto outside = with({table + 20});
  outside[place + 16] = '9', outside[place + 17] = '9', outside[place + 18] = '9';
  expect("table and length", outside, 30, 0);
}

// The copy is checked before it is believed.
TEST_P(Manager, WithoutASoundCopyADestroyedIndexTellsNothing) {
  options_.keep.last = 0;
  job([&](Rank& rank) {
    for (int step = 1; step <= 3; ++step) rank.save(step * 10);
    rank.manager.restore(10, rank.state);
    rank.save(40);
  });
  flip("/run/ckpt-40.index", 20);
  const auto meta = cat("/run/ckpt-40.data-0000", GetParam(), "-of-0000", GetParam() + 1);
  const auto sequence_of = [](Rank& rank, std::int64_t step) {
    for (const auto& info : rank.manager.steps()) {
      if (info.step == step) return info.sequence;
    }
    return std::int64_t{-1};
  };
  const auto bytes = io::read_file(*files_, meta, 1 << 20);
  const auto copy = static_cast<std::int64_t>(bytes.find('}')) + 1;
  for (const std::int64_t at : {std::int64_t{30}, copy + 20}) {
    SCOPED_TRACE(cat("byte ", at, " of ", bytes.size()));
    flip(meta, at);
    job([&](Rank& rank) { EXPECT_EQ(sequence_of(rank, 40), 0); });
    flip(meta, at);
  }
  job([&](Rank& rank) { EXPECT_EQ(sequence_of(rank, 40), 4); });
}

// Two names in one process: one opens its checkpoints, saves and tidies up while the other is about
// to rename its state file.
TEST_P(Manager, NamesDoNotDisturbEachOthersStateFiles) {
  std::string warnings;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::warning) warnings += text;
  });
  io::create_directories(*files_, "/run");
  io::write_file(*files_, "/run/checkpoint.tmp", "of a job of long ago");
  double value = 1;
  State state;
  state.add("value", value);
  options_.name = "a";
  CheckpointManager first(serial_group(), "/run", options_);
  EXPECT_FALSE(io::exists(*files_, "/run/checkpoint.tmp"));
  int times = 0;
  files_->set_observer([&](const std::string& text) {
    if (text.find("rename /run/checkpoint.") != 0) return;
    files_->set_observer({});
    ++times;
    auto options = options_;
    options.name = "b";
    CheckpointManager(serial_group(), "/run", options).save(1, state);
  });
  first.save(1, state);
  EXPECT_EQ(times, 1);
  EXPECT_EQ(warnings, "");
  EXPECT_EQ(commit::read_state_file(*files_, "/run")->model_checkpoint_path, "a-1");
  for (const auto& name : files_->list("/run")) EXPECT_EQ(name.find(".tmp"), name.npos) << name;
  set_log_sink({});
}

// On a full disk there is no room for a state file, until old checkpoints are removed.
TEST_P(Manager, AFullDiskDoesNotKeepOldCheckpoints) {
  options_.keep.last = 2;
  job([&](Rank& rank) {
    rank.save(1);
    rank.save(2);
    if (rank.group->rank() == 0) {
      files_->inject({Code::no_space, "write", ".state"});  // at the end of a save; before it
      files_->inject({Code::no_space, "write", "checkpoint.tmp"});
    }
    rank.group->barrier();
    rank.save(3);
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{2, 3}));
  });
  EXPECT_FALSE(io::exists(*files_, "/run/ckpt-1.index"));
  EXPECT_EQ(commit::read_state_file(*files_, "/run")->all_paths,
            (std::vector<std::string>{"ckpt-2", "ckpt-3"}));
  // After any other failure the old checkpoints stay.
  job([&](Rank& rank) {
    if (rank.group->rank() == 0) {
      files_->inject({Code::io, "write", ".state"});
      files_->inject({Code::io, "write", "checkpoint.tmp"});
    }
    rank.group->barrier();
    rank.save(4);
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{2, 3, 4}));
  });
}

TEST_P(Manager, AnOldTemporaryOfTheStateFileIsCollected) {
  job([](Rank& rank) { rank.save(1); });
  for (const auto* name : {"checkpoint.tmp", "checkpoint.tmp-ckpt", "checkpoint.tmp-other"}) {
    io::write_file(*files_, io::Path("/run") / name, "half");
  }
  job([](Rank&) {});
  EXPECT_FALSE(io::exists(*files_, "/run/checkpoint.tmp"));
  EXPECT_FALSE(io::exists(*files_, "/run/checkpoint.tmp-ckpt"));
  EXPECT_TRUE(io::exists(*files_, "/run/checkpoint.tmp-other")) << "perhaps in use";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Manager, testing::Values(1, 2, 3, 7),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace cairn
