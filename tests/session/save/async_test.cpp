// Pending saves: what is captured, when it counts, who gets the errors, and what a restart makes of
// a save whose job has ended.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/text.hpp"
#include "support/manager_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

// Holds tasks until the test lets them go.
class GatedQueue : public TaskQueue {
 public:
  ~GatedQueue() override { open(); }
  void run(std::function<void()> task) override {
    thread_->run([this, task = std::move(task)] {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return allowed_ > 0; });
        --allowed_;
      }
      task();
    });
  }
  void drain() override {
    allow(std::exchange(at_drain_, 0));
    thread_->drain();
  }
  void allow_at_drain(int tasks) { at_drain_ = tasks; }
  void allow(int tasks) {
    {
      const std::lock_guard guard(mutex_);
      allowed_ += tasks;
    }
    changed_.notify_all();
  }
  void open() { allow(1 << 20); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int allowed_ = 0, at_drain_ = 0;
  std::shared_ptr<TaskQueue> thread_ = thread_queue();  // ends before what its tasks use
};

class Async : public Manager {
 protected:
  void set(Rank& rank, std::int64_t step) {
    rank.step = step;
    rank.value = static_cast<double>(step * 100 + rank.group->rank());
  }
  SaveHandle start(Rank& rank, std::int64_t step) {
    set(rank, step);
    auto handle = rank.manager.save_async(step, rank.state);
    rank.step = -1, rank.value = -1;  // what is captured stays as it was
    return handle;
  }
  // The queue of each rank does nothing until it is told to.
  template <class F>
  void gated_job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      auto options = options_;
      const auto gate = std::make_shared<GatedQueue>();
      options.async.queue = gate;
      Rank rank(group, options);
      body(rank, *gate);
      gate->open();
    });
  }
  bool exists(const std::string& path) { return io::exists(*files_, path); }
  std::vector<std::string> all_files(const io::Path& folder = "/run") {
    std::vector<std::string> all;
    for (const auto& name : files_->list(folder)) {
      const auto path = folder / name;
      if (files_->status(path)->is_directory) {
        for (auto& below : all_files(path)) all.push_back(std::move(below));
      } else {
        all.push_back(path.string());
      }
    }
    return all;
  }
};

TEST_P(Async, WhatWasCapturedIsSavedWhateverTheArraysHoldLater) {
  job([&](Rank& rank) {
    const auto handle = start(rank, 10);
    rank.manager.wait();
    EXPECT_EQ(handle.stage(), SaveStage::committed);
    EXPECT_EQ(handle.prefix(), "/run/ckpt-10");
    EXPECT_EQ(rank.latest(), 10);
  });
}

TEST_P(Async, PollMovesASaveOnWithoutWaiting) {
  gated_job([&](Rank& rank, GatedQueue& gate) {
    const auto handle = start(rank, 10);
    EXPECT_FALSE(rank.manager.poll());
    EXPECT_EQ(handle.stage(), SaveStage::captured);
    gate.allow(1);
    handle.wait_written();
    rank.group->barrier();
    while (!rank.manager.poll()) gate.allow(1);
    EXPECT_TRUE(handle.committed());
  });
  EXPECT_TRUE(exists("/run/ckpt-10.index"));
}

TEST_P(Async, NothingIsVisibleBeforeTheCommit) {
  gated_job([&](Rank& rank, GatedQueue& gate) {
    const auto handle = start(rank, 10);
    gate.allow(1);
    handle.wait_written();
    rank.group->barrier();
    EXPECT_FALSE(exists("/run/ckpt-10.index"));
    rank.group->barrier();
    gate.open();
    EXPECT_EQ(rank.steps(), std::vector<std::int64_t>{10}) << "who looks waits for it";
  });
}

// The promise: a save counts from its last durable byte on, not from the next call.
TEST_P(Async, ARestartCompletesWhatWasWritten) {
  job([&](Rank& rank) { rank.save(10); });
  const auto crashed = [&] {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Rank rank(group, options_);
      start(rank, 20).wait_written();
      group->barrier();
      crash();
    });
  };
  EXPECT_THROW(crashed(), Crashed);
  EXPECT_FALSE(exists("/run/ckpt-20.index"));
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 20); });
}

TEST_P(Async, TheDestructorWaitsForTheBytesAndARestartCompletesThem) {
  job([&](Rank& rank) { start(rank, 20); });
  EXPECT_FALSE(exists("/run/ckpt-20.index"));
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 20); });
}

TEST_P(Async, WhatWasWrittenAndIsDamagedIsDroppedAloud) {
  job([&](Rank& rank) { rank.save(10); });
  job([&](Rank& rank) { start(rank, 20); });
  for (const auto& path : all_files()) {
    if (path.find("part-00000") != path.npos) files_->open_write(path)->resize(1);
  }
  std::string warnings;
  set_log_sink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::warning) warnings += line;
  });
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 10); });
  set_log_sink({});
  EXPECT_THAT(warnings, test::Says("step 20, which was written but not committed"));
}

TEST_P(Async, WhatWasNotWrittenIsNotCompleted) {
  job([&](Rank& rank) { rank.save(10); });
  files_->inject({Code::no_space, "write", "part-00000", 0, 1});
  job([&](Rank& rank) { start(rank, 20); });
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 10); });
}

TEST_P(Async, ManySavesInARow) {
  options_.keep.last = 2;
  job([&](Rank& rank) {
    std::vector<SaveHandle> handles;
    for (int step = 1; step <= 10; ++step) handles.push_back(start(rank, step));
    rank.manager.wait();
    for (const auto& handle : handles) EXPECT_TRUE(handle.committed()) << handle.step();
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{9, 10}));
    EXPECT_EQ(rank.latest(), 10);
  });
  // No save replaced another one, and each directory is tidy.
  for (const auto& name : files_->list("/run")) EXPECT_EQ(name.find("_temp_"), name.npos) << name;
}

TEST_P(Async, EachGoesOnFromTheOnePendingBeforeIt) {
  gated_job([&](Rank& rank, GatedQueue& gate) {
    const auto first = start(rank, 10);
    gate.allow(1);
    first.wait_written();
    rank.group->barrier();
    const auto second = start(rank, 20);  // the first is being published
    gate.open();
    rank.manager.wait();
    for (const auto& info : rank.manager.steps()) EXPECT_FALSE(info.superseded) << info.step;
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{10, 20}));
  });
}

TEST_P(Async, ABlockingSaveComesAfterTheOnePending) {
  job([&](Rank& rank) {
    const auto handle = start(rank, 10);
    rank.save(20);
    EXPECT_TRUE(handle.committed());
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{10, 20}));
    EXPECT_EQ(rank.latest(), 20);
  });
}

TEST_P(Async, SkipSavesNothingWhileBytesAreOnTheirWay) {
  options_.async.when_busy = WhenBusy::skip;
  gated_job([&](Rank& rank, GatedQueue& gate) {
    const auto first = start(rank, 10);
    const auto second = start(rank, 20);
    EXPECT_EQ(second.stage(), SaveStage::skipped);
    gate.open();
    rank.manager.wait();
    EXPECT_EQ(rank.steps(), std::vector<std::int64_t>{10});
    EXPECT_EQ(rank.manager.statistics().skipped, 1);
    EXPECT_EQ(rank.manager.statistics().committed, 1);
  });
}

TEST_P(Async, ReplaceGivesUpTheOneBefore) {
  options_.async.when_busy = WhenBusy::replace;
  gated_job([&](Rank& rank, GatedQueue& gate) {
    const auto first = start(rank, 10);
    gate.open();
    const auto second = start(rank, 20);
    rank.manager.wait();
    // The first save may have been quick enough to be written.
    EXPECT_TRUE(first.stage() == SaveStage::replaced || first.committed());
    EXPECT_TRUE(second.committed());
    EXPECT_EQ(rank.steps().back(), 20);
    EXPECT_EQ(rank.latest(), 20);
    const auto all = rank.manager.statistics();
    EXPECT_EQ(all.replaced, first.committed() ? 0 : 1);
    EXPECT_EQ(all.committed + all.replaced, 2);
    EXPECT_EQ(all.failed, 0);
  });
  for (const auto& name : files_->list("/run")) EXPECT_EQ(name.find("_temp_"), name.npos) << name;
}

TEST_P(Async, AFailureIsInTheHandleInTheLogAndInTheNextCall) {
  std::mutex mutex;
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) {
    const std::lock_guard guard(mutex);
    lines.emplace_back(line);
  });
  job([&](Rank& rank) {
    rank.save(10);
    if (rank.group->rank() == 0) files_->inject({Code::no_space, "write", "part-00000", 0, 1});
    rank.group->barrier();
    const auto handle = start(rank, 20);
    const bool mine = rank.group->rank() == 0;  // the part that fails: it is known there at once
    const auto wait = [&] { handle.wait_written(); };
    mine ? expect_error(rank, Code::no_space, "part-00000", wait) : wait();
    EXPECT_EQ(handle.stage(), mine ? SaveStage::captured : SaveStage::written);
    rank.group->barrier();
    expect_error(rank, Code::no_space, "part-00000", [&] {
      while (!rank.manager.poll()) continue;
    });
    EXPECT_EQ(handle.stage(), SaveStage::failed);
    ASSERT_TRUE(handle.error());
    EXPECT_EQ(handle.error()->code(), Code::no_space);
    EXPECT_THAT(handle.error()->what(), test::Says(", of step 20"));
    EXPECT_TRUE(rank.manager.poll()) << "thrown once";
    if (rank.group->rank() == 0) files_->inject({Code::io, "write", ".index", 0, 1});
    expect_error(rank, Code::io, ", of step 25", [&] { rank.save(25); });
    EXPECT_EQ(rank.latest(), 10);
    EXPECT_TRUE(start(rank, 30).error() == std::nullopt);
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 30);
  });
  set_log_sink({});
  EXPECT_THAT(lines, testing::Contains(test::Says("the asynchronous save of step 20")));
}

TEST_P(Async, FailuresNeedNotBeThrown) {
  options_.async.throw_failures = false;
  std::atomic<int> told = 0;
  options_.async.on_change = [&](const SaveHandle& save) {
    if (save.stage() == SaveStage::failed) ++told;
  };
  files_->inject({Code::io, "sync", "part-00000", 0, 1});
  job([&](Rank& rank) {
    const auto handle = start(rank, 20);
    rank.manager.wait();
    EXPECT_EQ(handle.stage(), SaveStage::failed);
  });
  EXPECT_EQ(told, GetParam());
}

TEST_P(Async, AFailedPublicationLeavesTheOlderCheckpoint) {
  job([&](Rank& rank) {
    rank.save(10);
    if (rank.group->rank() == 0) files_->inject({Code::no_space, "write", "index", 0, 1});
    rank.group->barrier();
    start(rank, 20);
    expect_error(rank, Code::no_space, "index", [&] { rank.manager.wait(); });
    EXPECT_EQ(rank.latest(), 10);
  });
  for (const auto& name : files_->list("/run")) EXPECT_EQ(name.find("_temp_"), name.npos) << name;
}

TEST_P(Async, WhatIsWrongWithTheStateIsThrownAtOnce) {
  job([&](Rank& rank) {
    State bad;
    double value = 1;
    bad.add("x", slice(&value, {rank.group->size() + 1}, {rank.group->rank()}, {1}));
    expect_error(rank, Code::coverage, "held by no rank", [&] { rank.manager.save_async(1, bad); });
    start(rank, 10);
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 10);
    expect_error(rank, Code::already_exists, "step 10", [&] { start(rank, 10); });
  });
}

TEST_P(Async, AStepPendingExists) {
  job([&](Rank& rank) {
    start(rank, 10);
    expect_error(rank, Code::already_exists, "step 10", [&] { start(rank, 10); });
  });
}

// The commit is visible and a crash may yet undo it: the checkpoint before it must stay.
TEST_P(Async, ACommitOfUnknownDurabilityRemovesNothing) {
  options_.keep.last = 1;
  job([&](Rank& rank) {
    rank.save(10);
    const auto handle = start(rank, 20);
    handle.wait_written();
    rank.group->barrier();
    // Fails the directory's fsync after the rename of the index; that of the data comes first.
    if (rank.group->rank() == 0) files_->inject({Code::io, "sync_directory", "/run", 2, 1});
    rank.group->barrier();
    expect_error(rank, Code::durability_unknown, "may not survive", [&] { rank.manager.wait(); });
    EXPECT_TRUE(exists("/run/ckpt-10.index"));
    EXPECT_TRUE(exists("/run/ckpt-20.index"));
    rank.group->barrier();
  });
}

TEST_P(Async, AReplacedSaveThatCannotBeRemovedNeverCompletes) {
  options_.async.when_busy = WhenBusy::replace;
  job([&](Rank& rank) { rank.save(10); });
  gated_job([&](Rank& rank, GatedQueue& gate) {
    const auto first = start(rank, 20);
    gate.open();
    first.wait_written();
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->inject({Code::io, "remove", "record-", 0, 100});
    rank.group->barrier();
    try {
      start(rank, 30);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::io);
    }
    rank.group->barrier();
    files_->clear_faults();
    rank.group->barrier();
    start(rank, 40);
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 40);
  });
}

// The files may belong to the new owner, which completes the saves that it finds written.
TEST_P(Async, ALostDirectoryIsLeftAlone) {
  gated_job([&](Rank& rank, GatedQueue& gate) {
    const auto handle = start(rank, 10);
    gate.allow(1);
    handle.wait_written();
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->remove("/run/.cairn/owner");
    rank.group->barrier();
    const auto before = all_files();
    rank.group->barrier();
    gate.open();
    expect_error(rank, Code::busy, "no longer owned", [&] { rank.manager.wait(); });
    rank.group->barrier();
    EXPECT_THAT(all_files(), testing::IsSupersetOf(before));
  });
  job([&](Rank& rank) { EXPECT_EQ(rank.latest(), 10) << "as a restart completes it"; });
}

// The save before failed after this one was written: the parent is the last one committed.
TEST_P(Async, EachGoesOnFromTheLastThatCommitted) {
  options_.async.throw_failures = false;
  job([&](Rank& rank) { rank.save(10); });
  gated_job([&](Rank& rank, GatedQueue& gate) {
    EXPECT_EQ(rank.latest(), 10);
    if (rank.group->rank() == 0) files_->inject({Code::no_space, "write", "index", 0, 1});
    rank.group->barrier();
    const auto first = start(rank, 20);
    gate.allow(1);
    first.wait_written();
    rank.group->barrier();
    const auto second = start(rank, 30);
    gate.open();
    rank.manager.wait();
    EXPECT_EQ(first.stage(), SaveStage::failed);
    EXPECT_TRUE(second.committed());
    for (const auto& info : rank.manager.steps()) EXPECT_FALSE(info.superseded) << info.step;
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{10, 30}));
  });
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 30);
    for (const auto& info : rank.manager.steps()) EXPECT_FALSE(info.superseded) << info.step;
  });
}

// Without renames, the bytes of a pending save have their final names, beside the old index.
TEST_P(Async, RetentionLeavesTheStepsPendingAlone) {
  options_.write.atomic_rename = false;
  options_.overwrite = true;
  options_.keep.last = 2;
  job([&](Rank& rank) {
    rank.save(10);
    rank.save(20);
  });
  gated_job([&](Rank& rank, GatedQueue& gate) {
    EXPECT_EQ(rank.latest(), 20);
    const auto first = start(rank, 30);  // its retention takes step 10 away
    gate.allow(1);
    first.wait_written();
    rank.group->barrier();
    gate.allow_at_drain(1);  // only its publication: the next one waits for it
    const auto second = start(rank, 10);
    gate.open();
    second.wait_written();
    rank.manager.wait();
    EXPECT_TRUE(first.committed());
    EXPECT_TRUE(second.committed());
    EXPECT_EQ(rank.latest(), 10) << "the last that was saved";
  });
  job([&](Rank& rank) {
    EXPECT_EQ(rank.latest(), 10);
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{30, 10}));
  });
}

TEST_P(Async, RanksThatWouldDoOtherThingsWhenBusyAreRefused) {
  if (GetParam() == 1) return;
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    options.async.when_busy = group->rank() == 0 ? WhenBusy::wait : WhenBusy::skip;
    test::expect_error(Code::disagreement, testing::HasSubstr("when_busy"),
                       [&] { CheckpointManager manager(group, "/run", options); });
  });
}

TEST_P(Async, ReplicasThatDifferAreRefusedBeforeAnythingIsWritten) {
  if (GetParam() == 1) return;
  job([&](Rank& rank) {
    set(rank, 10);
    rank.step += rank.group->rank();
    expect_error(rank, Code::disagreement, "replicas of tensor 'step'",
                 [&] { rank.manager.save_async(10, rank.state); });
    EXPECT_TRUE(rank.manager.poll());
  });
  for (const auto& name : files_->list("/run")) EXPECT_EQ(name.find("ckpt"), name.npos) << name;
}

TEST_P(Async, WhatDoesNotFitTheMemoryIsSavedBeforeTheCallReturns) {
  options_.async.pool_bytes = 1;
  job([&](Rank& rank) {
    const auto handle = start(rank, 10);
    EXPECT_TRUE(handle.committed());
    EXPECT_THAT(handle.blocked_because(), test::Says("does not fit"));
    EXPECT_EQ(rank.latest(), 10);
  });
}

TEST_P(Async, IoRanksHaveTheCopiesOfOthers) {
  options_.write.io_ranks = IoRanks::count(1);
  gated_job([&](Rank& rank, GatedQueue& gate) {
    const auto handle = start(rank, 10);
    EXPECT_EQ(handle.stage(), SaveStage::captured);
    EXPECT_EQ(handle.blocked_because(), "");
    gate.open();
    rank.manager.wait();
    EXPECT_TRUE(handle.committed());
    EXPECT_EQ(rank.latest(), 10);
  });
}

TEST_P(Async, HandlesOutliveTheManager) {
  std::vector<std::optional<SaveHandle>> handles(7);
  job([&](Rank& rank) { handles[static_cast<std::size_t>(rank.group->rank())] = start(rank, 10); });
  for (int rank = 0; rank < GetParam(); ++rank) {
    handles[static_cast<std::size_t>(rank)]->wait_written();
    EXPECT_EQ(handles[static_cast<std::size_t>(rank)]->stage(), SaveStage::written);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Async, testing::Values(1, 2, 3, 7),
                         [](const auto& info) { return cat("np", info.param); });

}  // namespace
}  // namespace cairn
