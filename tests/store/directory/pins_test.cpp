// Retention and pins through the manager, beside other processes, and after crashes.
#include "store/directory/pins.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <mutex>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "io/temporary_directory.hpp"
#include "store/commit/ownership.hpp"
#include "store/directory/retention.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using test::expect_error;

class Pins : public test::MemoryRun {
 protected:
  using Rank = test::RunRank;
};
INSTANTIATE_TEST_SUITE_P(Ranks, Pins, testing::Values(1, 3));

TEST_P(Pins, APinnedCheckpointStaysOverJobsUntilItIsUnpinned) {
  options_.keep.last = 1;
  job([](Rank& rank) {
    rank.save(1);
    rank.manager.pin(1);
    rank.manager.pin(1);
    rank.save(2);
    rank.save(3);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 3));
    EXPECT_TRUE(rank.manager.steps()[0].pinned);
    EXPECT_FALSE(rank.manager.steps()[1].pinned);
  });
  job([](Rank& rank) {
    rank.save(4);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 4));
    rank.manager.unpin(1);
    EXPECT_FALSE(rank.manager.steps()[0].pinned);
    rank.manager.unpin(1);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 4)) << "it goes with the next save";
    rank.save(5);
    EXPECT_THAT(rank.steps(), ElementsAre(5));
    expect_error(Code::not_found, test::Says("there is no step 1 in /run"),
                 [&] { rank.manager.pin(1); });
    expect_error(Code::not_found, test::Says("there is no step 1 in /run"),
                 [&] { rank.manager.unpin(1); });
    expect_error(Code::not_found, test::Says("there is no step -1"),
                 [&] { rank.manager.unpin(-1); });
  });
}

TEST_P(Pins, ADamagedPinHoldsAndKeepsNobodyOut) {
  options_.keep.last = 1;
  job([](Rank& rank) {
    rank.save(1);
    rank.manager.pin(1);
  });
  files_->open_write("/run/.cairn/pinned/ckpt-1")->resize(5000);
  job([](Rank& rank) {
    EXPECT_EQ(rank.latest(), 1);
    rank.save(2);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 2));
    rank.manager.unpin(1);
    rank.save(3);
    EXPECT_THAT(rank.steps(), ElementsAre(3));
  });
}

// A pin whose bytes were changed may still be meant for the checkpoint.
TEST_P(Pins, AnyFlippedByteOfAPinIsNoticedAndKeepsTheCheckpoint) {
  options_.keep.last = 1;
  std::mutex mutex;
  std::string warnings;
  set_log_sink([&](LogLevel level, std::string_view text) {
    const std::lock_guard guard(mutex);
    if (level == LogLevel::warning) warnings += cat(text, '\n');
  });
  job([](Rank& rank) {
    rank.save(1);
    rank.manager.pin(1);
    rank.save(2);
  });
  const std::string path = "/run/.cairn/pinned/ckpt-1";
  const auto pin = io::read_file(*files_, path, 100);
  const auto notes = [&] {
    std::string all;
    for (const auto& finding : verify_checkpoint({*files_, "/run/ckpt-1"}).findings) {
      if (finding.kind == Finding::Kind::note) all += finding.what;
    }
    return all;
  };
  EXPECT_EQ(notes(), "");
  std::vector<std::string> damaged = {"", pin + "x", std::string(pin.size(), '\0')};
  for (std::size_t i = 0; i < pin.size(); ++i) {
    damaged.push_back(pin.substr(0, i));
    for (const int bit : {1, 4, 128}) {
      damaged.push_back(pin);
      damaged.back()[i] = static_cast<char>(pin[i] ^ bit);
    }
  }
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    files_->remove(path);
    io::write_file(*files_, path, damaged[i]);
    const auto entry = scan_catalog({files_, "/run", "ckpt"}).at(0);
    EXPECT_EQ(entry.pin, Pin::damaged) << damaged[i];
    EXPECT_THAT(notes(), test::Says("its pin is damaged"));
    if (i % 17) continue;
    warnings.clear();
    job([](Rank& rank) {
      rank.save(3);
      EXPECT_THAT(rank.steps(), ElementsAre(1, 3));
      EXPECT_TRUE(rank.manager.steps()[0].pinned);
      rank.save(2);
    });
    EXPECT_THAT(warnings, test::Says("the pin of step 1 is damaged"));
  }
  warnings.clear();
  job([](Rank& rank) {
    rank.manager.pin(1);
    rank.save(3);
  });
  EXPECT_EQ(io::read_file(*files_, path, 100), pin) << "pinned again, it is sound again";
  job([](Rank& rank) {
    rank.manager.unpin(1);
    rank.save(4);
    EXPECT_THAT(rank.steps(), ElementsAre(4));
  });
  set_log_sink({});
}

// Each pin names its checkpoint: if two pins are exchanged, both still hold.
TEST_P(Pins, PinsThatWereExchangedHold) {
  options_.keep.last = 1;
  job([](Rank& rank) {
    for (const int step : {1, 2}) {
      rank.save(step);
      rank.manager.pin(step);
    }
  });
  const std::string one = "/run/.cairn/pinned/ckpt-1", two = "/run/.cairn/pinned/ckpt-2";
  files_->rename(one, "/run/one");
  files_->rename(two, one);
  files_->rename("/run/one", two);
  job([](Rank& rank) {
    rank.save(3);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 2, 3));
  });
}

TEST_P(Pins, APinnedCheckpointIsNotReplaced) {
  options_.overwrite = true;
  job([](Rank& rank) {
    rank.save(1);
    rank.save(2);
    rank.manager.pin(2);
    rank.manager.restore(1, rank.state);
    expect_error(Code::already_exists,
                 AllOf(test::Says("step 2 in /run is pinned"), test::Says("Unpin it")),
                 [&] { rank.save(2); });
    rank.manager.unpin(2);
    rank.save(2);
  });
}

TEST_P(Pins, APinThatIsMadeDuringASaveCounts) {
  options_.overwrite = true;
  bool pins = false;  // for rank 0
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    const auto save = [&, group](const std::string&) -> std::vector<std::string> {
      if (group->rank() == 0 && pins) {
        const auto catalog = scan_catalog({files_, "/run", "ckpt"});
        add_pin({files_, "/run", "ckpt"}, catalog.back());
      }
      return {};
    };
    options.hooks.savers.push_back({"pins", save, [](const std::string&) {}});
    Rank rank(group, options);
    rank.save(1);
    if (group->rank() == 0) pins = true;
    expect_error(Code::already_exists, test::Says("step 1 in /run is pinned"),
                 [&] { rank.save(1); });
    if (group->rank() == 0) pins = false;
    rank.manager.unpin(1);
    rank.save(1);
  });
}

TEST_P(Pins, AReaderPinsNothing) {
  job([](Rank& rank) { rank.save(1); });
  options_.read_only = true;
  job([](Rank& rank) {
    expect_error(Code::invalid_argument, test::Says("a read-only manager cannot pin"),
                 [&] { rank.manager.pin(1); });
    expect_error(Code::invalid_argument, test::Says("a read-only manager cannot unpin"),
                 [&] { rank.manager.unpin(1); });
  });
}

// Another process pins, as `cairn pin` does beside a running job.
TEST_P(Pins, AnotherProcessPins) {
  options_.keep.last = 1;
  job([&](Rank& rank) {
    rank.save(1);
    rank.group->barrier();
    if (rank.group->rank() == 0) {
      const auto lock = PinLock::take({*files_, "/run"}, 0);
      add_pin({files_, "/run", "ckpt"}, scan_catalog({files_, "/run", "ckpt"}).at(0));
    }
    rank.group->barrier();
    EXPECT_TRUE(rank.manager.steps()[0].pinned);
    rank.save(2);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 2));
    // While another process holds the lock, it may be about to pin something: nothing is removed.
    std::optional<PinLock> held;
    if (rank.group->rank() == 0) held = PinLock::take({*files_, "/run"}, 0);
    rank.group->barrier();
    expect_error(Code::busy, test::Says("the pins of /run are in use"),
                 [&] { rank.manager.pin(2); });
    rank.save(3);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 2, 3));
    rank.group->barrier();
    held.reset();
    rank.group->barrier();
    rank.save(4);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 4));
  });
}

// A job keeps the file of the lock open between its saves.
TEST(PinLockOnDisk, IsGivenBackAndFollowsItsPath) {
  test::TemporaryDirectory home;
  const auto files = io::posix_file_system();
  PinLock::File kept;
  const auto try_take = [&](PinLock::File* file) {
    return PinLock::try_take(*files, home.path(), file);
  };
  for (int turn = 0; turn < 3; ++turn) {
    auto mine = try_take(&kept);
    ASSERT_TRUE(mine);
    EXPECT_FALSE(try_take(nullptr)) << "while it is held";
    mine.reset();
    const auto others = try_take(nullptr);
    ASSERT_TRUE(others);
    EXPECT_FALSE(try_take(&kept)) << "while another holds it";
    if (turn == 1) files->remove(home.path() / ".cairn/pinned.lock");
    if (turn == 1) {
      EXPECT_TRUE(try_take(&kept)) << "of the file that is there now";
    }
  }
}

TEST_P(Pins, WithoutLocksOneCanPinToo) {
  options_.keep.last = 1;
  job([&](Rank& rank) {
    rank.group->barrier();
    if (rank.group->rank() == 0) {
      files_->inject({Code::unsupported, "lock", "pinned.lock", 0, 100});
    }
    rank.group->barrier();
    rank.save(1);
    rank.manager.pin(1);
    rank.save(2);
    rank.save(3);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 3));
  });
}

TEST(PinLockFile, NeedsNoInode) {
  set_log_sink({});
  ManagerOptions options;
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  options.write.file_system = disk;
  {
    double value = 1;
    State state;
    state.add("value", value);
    CheckpointManager manager(serial_group(), "/run", options);
    for (const std::int64_t step : {1, 2, 3, 4}) manager.save(step, state);
  }
  const auto owner = commit::Ownership::take(disk, "/run", 0);
  disk->remove("/run/.cairn/pinned.lock");
  auto catalog = scan_catalog({disk, "/run", "ckpt"});
  const auto retain = [&] {
    return apply_retention({disk, "/run", "ckpt"}, catalog, {.last = 1}, owner);
  };
  disk->inject({Code::no_space, "create", "pinned.lock"});
  disk->inject({Code::io, "link", "pinned.lock"});
  test::expect_error(Code::io, HasSubstr("link"), retain);
  EXPECT_FALSE(disk->status("/run/.cairn/pinned.lock"));
  disk->inject({Code::no_space, "create", "pinned.lock"});
  {
    const auto pins = PinLock::take({*disk, "/run"}, 0);
    EXPECT_FALSE(PinLock::try_take(*disk, "/run"));
  }
  EXPECT_THAT(retain(), ElementsAre(1, 2, 3));
}

TEST(RetentionOnDisk, DoesNotTellOfAStepThatAnotherSaveHasReplaced) {
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = disk;
  double value = 1;
  State state;
  state.add("value", value);
  for (const std::int64_t step : {1, 2, 3}) {
    CheckpointManager(serial_group(), "/run", options).save(step, state);
  }
  const Location place{disk, "/run", "ckpt"};
  const auto owner = commit::Ownership::take(disk, "/run", 0);
  auto catalog = scan_catalog(place);
  const auto index = io::read_file(*disk, "/run/ckpt-1.index", 1 << 20);
  disk->remove("/run/ckpt-1.index");
  io::write_file(*disk, "/run/ckpt-1.index", index);
  EXPECT_THAT(apply_retention(place, catalog, {.last = 1}, owner), ElementsAre(2));
  EXPECT_TRUE(io::exists(*disk, "/run/ckpt-1.index"));
}

TEST_P(Pins, APinGoesWithItsCheckpointAndMeansThatSaveOnly) {
  job([](Rank& rank) {
    rank.save(1);
    rank.save(2);
    rank.manager.pin(1);
    rank.manager.pin(2);
  });
  const auto pin = io::read_file(*files_, "/run/.cairn/pinned/ckpt-1", 100);
  for (const auto& name : files_->list("/run")) {
    if (name.starts_with("ckpt-1.")) files_->remove("/run/" + name);
  }
  job([](Rank& rank) { EXPECT_THAT(rank.steps(), ElementsAre(2)); });
  EXPECT_THAT(files_->list("/run/.cairn/pinned"), ElementsAre("ckpt-2"));
  io::write_file(*files_, "/run/.cairn/pinned/ckpt-1", pin);
  job([](Rank& rank) {
    rank.save(1);
    EXPECT_FALSE(rank.manager.steps()[1].pinned) << "another save of this step";
  });
}

TEST_P(Pins, TheBestStayAndMetricsAreStored) {
  options_.keep.last = 1;
  options_.keep.best = 2;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  job([&](Rank& rank) {
    const double metrics[] = {0.5, 0.25, nan, 0.75};
    for (int i = 0; i < 4; ++i) rank.save(i + 1, {.metric = metrics[i]});
    rank.save(5);
    EXPECT_THAT(rank.steps(), ElementsAre(1, 2, 5));
    EXPECT_EQ(rank.manager.steps()[1].metric, 0.25);
    EXPECT_EQ(rank.manager.steps()[2].metric, std::nullopt);
    EXPECT_EQ(rank.manager.open(1).meta->metric, 0.5);
  });
  job([&](Rank& rank) {
    rank.save(6, {.metric = -std::numeric_limits<double>::infinity()});
    EXPECT_THAT(rank.steps(), ElementsAre(2, 6)) << "those of the job before count";
    rank.save(7, {.metric = nan});
    EXPECT_TRUE(std::isnan(*rank.manager.steps().back().metric));
    if (rank.group->size() == 1) return;
    expect_error(Code::disagreement, test::Says("ranks disagree on SaveOptions: metric"),
                 [&] { rank.save(8, {.metric = static_cast<double>(rank.group->rank())}); });
  });
}

TEST_P(Pins, ThePreviewIsWhatHappens) {
  options_.keep.last = 2;
  options_.keep.every_steps = 4;
  job([](Rank& rank) {
    for (int step = 1; step <= 9; ++step) {
      std::vector<std::int64_t> left;
      for (const auto& one : rank.manager.preview_retention(step)) {
        if (one.stays) left.push_back(one.step);
      }
      rank.save(step);
      EXPECT_EQ(rank.steps(), left);
      for (const auto& one : rank.manager.preview_retention()) EXPECT_TRUE(one.stays) << one.step;
    }
    EXPECT_THAT(rank.steps(), ElementsAre(4, 8, 9));
    const auto preview = rank.manager.preview_retention(10);
    EXPECT_EQ(preview[0].why, "a multiple of 4 steps");
    EXPECT_EQ(preview[3].why, "the newest");
  });
  options_.read_only = true;
  options_.keep = {.last = 1};
  job([](Rank& rank) {
    const auto preview = rank.manager.preview_retention();
    ASSERT_EQ(preview.size(), 3u);
    EXPECT_FALSE(preview[0].stays);
    EXPECT_EQ(preview[0].why, "not one of the last 1");
    EXPECT_TRUE(preview[2].stays);
  });
}

TEST_P(Pins, NegativeRulesAreRefused) {
  const auto refused = [&](const char* option) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      expect_error(Code::invalid_argument, HasSubstr(cat("Retention::", option, " is ")),
                   [&] { CheckpointManager(group, "/run", options_); });
    });
  };
  options_.keep = {.every_steps = -1};
  refused("every_steps");
  options_.keep = {.every_hours = std::numeric_limits<double>::quiet_NaN()};
  refused("every_hours");
  options_.keep = {.best = -1};
  refused("best");
}

// Each try has its own name for the new file: none of them may be left on a disk that stays full.
TEST(PinCrash, APinThatFailsLeavesNothing) {
  ManagerOptions options;
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  options.write.file_system = disk;
  double value = 1;
  State state;
  state.add("value", value);
  CheckpointManager manager(serial_group(), "/run", options);
  manager.save(1, state);
  for (const char* kind : {"write", "sync", "rename"}) {
    disk->inject({Code::no_space, kind, ".cairn/pinned/", 0, 99});  // also in the room that is kept
    EXPECT_THROW(manager.pin(1), Error) << kind;
    disk->clear_faults();
    EXPECT_EQ(disk->list("/run/.cairn/pinned"), std::vector<std::string>{}) << kind;
    EXPECT_TRUE(disk->status("/run/.cairn/room.1")) << kind;
  }
  manager.pin(1);
  EXPECT_EQ(disk->list("/run/.cairn/pinned"), std::vector<std::string>{"ckpt-1"});
}

// Every crash state from before the pin until after the save that would remove the pinned
// checkpoint, or after the unpinning. Once pin has returned, the checkpoint is pinned and there.
TEST(PinCrash, AtEveryFileOperation) {
  set_log_sink({});
  ManagerOptions options;
  options.keep.last = 1;
  options.write.owner_wait_seconds = 0;
  double value = 1;
  State state;
  state.add("value", value);
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  std::size_t pinned = 0, saved = 0, unpinned = 0;
  {
    options.write.file_system = disk;
    CheckpointManager manager(serial_group(), "/run", options);
    manager.save(1, state);
    disk->mark();
    manager.pin(1);
    pinned = disk->operation_count();
    manager.save(2, state);
    saved = disk->operation_count();
    manager.unpin(1);
    unpinned = disk->operation_count();
  }
  int states = 0;
  for (std::size_t stop = 0; stop <= unpinned; ++stop) {
    for (const auto& choice : disk->crash_choices(stop)) {
      ++states;
      const auto found = disk->crash(stop, choice);
      const auto what = [&] { return disk->describe(stop, choice); };
      options.write.file_system = found;
      CheckpointManager manager(serial_group(), "/run", options);
      const auto steps = manager.steps();
      ASSERT_FALSE(steps.empty()) << what();
      ASSERT_EQ(steps[0].step, 1) << what();
      if (stop >= pinned && stop <= saved) {
        ASSERT_TRUE(steps[0].pinned) << what();
      }
      if (stop == unpinned) {
        ASSERT_FALSE(steps[0].pinned) << what();
      }
      manager.pin(1);
      manager.save(3, state);
      ASSERT_EQ(manager.steps().front().step, 1) << what();
      manager.unpin(1);
      manager.save(4, state);
      ASSERT_EQ(manager.steps().size(), 1u) << what();
      ASSERT_TRUE(manager.restore_latest(state)) << what();
    }
  }
  EXPECT_GT(states, 100);
}

}  // namespace
}  // namespace cairn
