// Asynchronous saves that are pending when their manager ends: what the log says of them then, and
// what the next owner of the directory makes of them.
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "support/manager_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AsyncEnd : public Manager {
 protected:
  AsyncEnd() {
    set_log_sink([this](LogLevel level, std::string_view line) {
      const std::lock_guard guard(mutex_);
      (level == LogLevel::error     ? errors_
       : level == LogLevel::warning ? warnings_
                                    : infos_)
          .emplace_back(line);
    });
  }
  ~AsyncEnd() override { set_log_sink({}); }

  void fresh_disk() {
    options_.write.file_system = files_ = std::make_shared<io::MemoryFileSystem>();
    forget();
  }
  void forget() { errors_.clear(), warnings_.clear(), infos_.clear(); }

  // Commits so many saves, then begins a last one, in which the bytes of rank `fails_on` cannot be
  // written (-1: all can). Returns the stage of the last one's handle on that rank afterwards.
  SaveStage end_pending(int committed, int fails_on) {
    SaveStage stage{};
    job([&](Rank& rank) {
      for (int i = 1; i <= committed; ++i) {
        start(rank, i * 10);
        rank.manager.wait();
      }
      const int me = rank.group->rank();
      if (me == std::max(fails_on, 0)) {
        if (fails_on >= 0) files_->inject({Code::no_space, "write", cat("part-0000", me), 0, 1});
        handle_.reset();
      }
      rank.group->barrier();
      const auto handle = start(rank, last_);
      if (me == std::max(fails_on, 0)) handle_ = handle;
    });
    stage = handle_->stage();
    EXPECT_EQ(handle_->error().has_value(), stage == SaveStage::failed);
    return stage;
  }
  SaveHandle start(Rank& rank, std::int64_t step) {
    rank.step = step, rank.value = rank.value_of(step);
    return rank.manager.save_async(step, rank.state);
  }
  std::int64_t latest() {
    std::int64_t found = -1;
    job([&](Rank& rank) {
      const auto seen = rank.latest();
      if (rank.group->rank() == 0) found = seen;
    });
    return found;
  }

  static constexpr std::int64_t last_ = 1234567;
  std::optional<SaveHandle> handle_;
  std::mutex mutex_;
  std::vector<std::string> errors_, warnings_, infos_;
};

const auto only_by_a_restart =
    AllOf(test::Says("the asynchronous save of step 1234567 is not committed: the manager ended"),
          test::Says("The next manager that saves in /run completes it"));

TEST_P(AsyncEnd, AFailureThatNoCallThrowsIsToldByTheRankThatKnowsIt) {
  for (const int committed : {0, 1, 3}) {  // the first saves go another way than later ones
    for (int who = 0; who < GetParam(); ++who) {
      SCOPED_TRACE(cat(committed, " saves before, fails on rank ", who));
      fresh_disk();
      EXPECT_EQ(end_pending(committed, who), SaveStage::failed);
      EXPECT_EQ(handle_->error()->code(), Code::no_space);
      const auto failed =
          AllOf(HasSubstr(cat("the asynchronous save of step 1234567 failed on rank ", who,
                              " when no call was left to throw it: ")),
                HasSubstr(cat("part-0000", who)));
      if (who == 0) {
        EXPECT_THAT(errors_, ElementsAre(failed));
      } else {
        EXPECT_THAT(errors_, testing::UnorderedElementsAre(failed, only_by_a_restart));
      }
      forget();
      EXPECT_EQ(latest(), committed * 10);
      EXPECT_THAT(errors_, IsEmpty());
      // The step is known if a rank has written its part.
      EXPECT_THAT(warnings_,
                  ElementsAre(AllOf(test::Says("removed from /run: ckpt-"),
                                    HasSubstr(GetParam() > 1 ? "a save of step 1234567 that did"
                                                             : " that did not finish: "))));
      forget();
      EXPECT_EQ(latest(), committed * 10);
      EXPECT_THAT(warnings_, IsEmpty());
    }
  }
}

TEST_P(AsyncEnd, WhatOnlyARestartCompletesIsTold) {
  for (const int committed : {0, 1, 3}) {
    SCOPED_TRACE(cat(committed, " saves before"));
    fresh_disk();
    EXPECT_EQ(end_pending(committed, -1), SaveStage::written);
    EXPECT_THAT(errors_, ElementsAre(only_by_a_restart));
    forget();
    EXPECT_EQ(latest(), last_);
    EXPECT_THAT(errors_, IsEmpty());
    EXPECT_THAT(warnings_, IsEmpty());
    EXPECT_THAT(infos_, testing::Contains(test::Says("completed the save of step 1234567")));
  }
}

TEST_P(AsyncEnd, WhatWasWaitedForIsNot) {
  job([&](Rank& rank) {
    start(rank, 10);
    rank.manager.wait();
  });
  EXPECT_THAT(errors_, IsEmpty());
  forget();
  EXPECT_EQ(latest(), 10);
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

// Runs its tasks at once; when it is held, only as the manager ends.
class HeldQueue : public TaskQueue {
 public:
  ~HeldQueue() override { drain(); }
  void run(std::function<void()> task) override {
    if (!is_held) return task();
    tasks_.push_back(std::move(task));
  }
  void drain() override {
    is_held = false;
    for (const auto& task : std::exchange(tasks_, {})) task();
  }
  bool is_held = false;

 private:
  std::vector<std::function<void()>> tasks_;
};

TEST_P(AsyncEnd, ACommitThatFailsLastIsTold) {
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    const auto queue = std::make_shared<HeldQueue>();
    options.async.queue = queue;
    Rank rank(group, options);
    rank.save(10);
    start(rank, last_);
    if (group->rank() == 0) files_->inject({Code::io, "write", "index", 0, 1});
    group->barrier();
    queue->is_held = true;
    EXPECT_FALSE(rank.manager.poll());  // the verdict on the bytes; rank 0 is to commit
  });
  EXPECT_THAT(errors_, ElementsAre(test::Says("the asynchronous save of step 1234567 failed on "
                                              "rank 0 when no call was left to throw it: ")));
  files_->clear_faults();
  EXPECT_EQ(latest(), last_);
}

TEST_P(AsyncEnd, RecoverySaysWhatItRemovesAndWhy) {
  job([&](Rank& rank) { rank.save(10); });
  const std::string uuid(32, 'a'), other(32, 'b');
  const auto hidden = "/run/ckpt-50_temp_" + other;
  files_->create_directory(hidden);
  io::write_file(*files_, hidden + "/.fuse_hidden0001", "of a mount");
  for (const auto& name : {"ckpt-20_temp_" + uuid, "ckpt-30.part_" + other}) {
    files_->create_directory("/run/" + name);
    io::write_file(*files_, "/run/" + name + "/part-00000-of-00001", "half of it");
  }
  io::write_file(*files_, "/run/ckpt-40.data-00000-of-00001", "nobody's");
  forget();
  EXPECT_EQ(latest(), 10);
  EXPECT_THAT(warnings_,
              testing::UnorderedElementsAre(
                  AllOf(test::Says("removed from /run: ckpt-20_kept_"),
                        test::Says("(a save of step 20 that did not finish: no part record")),
                  AllOf(test::Says("removed from /run: ckpt-30.part_"),
                        test::Says("(a save of step 30 that did not finish: ")),
                  AllOf(testing::HasSubstr("/run/ckpt-50_kept_"),
                        test::Says("stays: it holds files that are not ours"))));
  EXPECT_THAT(
      infos_,
      testing::Contains(test::Says(
          "removed from /run: ckpt-40.data-00000-of-00001 (data that no index refers to)")));
}

// Rank 0 has not committed the first yet when the others write the second.
TEST_P(AsyncEnd, TwoThatArePendingHaveRecordsOfTheirOwn) {
  if (GetParam() == 1) return;
  options_.write.part_records = true;
  run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
    auto options = options_;
    const auto tasks = std::make_shared<HeldQueue>();
    options.async.queue = tasks;
    Rank rank(group, options);
    start(rank, 10);
    rank.manager.wait();
    start(rank, 20);
    tasks->is_held = group->rank() == 0;
    rank.manager.poll();
    start(rank, 30);
    group->barrier();
    std::set<char> slots;  // of record-SLOT-NUMBER
    for (const auto& directory : files_->list("/run")) {
      if (directory.find("_temp_") == directory.npos) continue;
      for (const auto& name : files_->list("/run/" + directory)) {
        if (name.starts_with("record-")) slots.insert(name[7]);
      }
    }
    EXPECT_THAT(slots, ElementsAre('0', '1'));
    group->barrier();
    tasks->drain();
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 30);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AsyncEnd, testing::Values(1, 2, 3));

}  // namespace
}  // namespace cairn
