// Asynchronous saves where a rank's queue refuses a task, as when the system has no thread for it.
#include "cairn/log.hpp"
#include "support/manager_kit.hpp"

namespace cairn {
namespace {

// Refuses the task of this number; with 0 it takes all.
class Refusing : public TaskQueue {
 public:
  explicit Refusing(int refused) : refused_(refused) {}
  void run(std::function<void()> task) override {
    if (--refused_ == 0) throw Error(Code::io, "no thread is left");
    task();
  }
  void drain() override {}

 private:
  int refused_;
};

class NoThread : public Manager {
 protected:
  NoThread() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~NoThread() override { set_log_sink({}); }

  // The queue of this rank refuses that task: to write a save, to publish it, or to tidy up after
  // it.
  template <class F>
  void job_refused(int rank, int task, F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      auto options = options_;
      options.keep.last = 1;
      options.async.queue = std::make_shared<Refusing>(group->rank() == rank ? task : 0);
      Rank mine(group, options);
      body(mine);
    });
  }
  static SaveHandle start(Rank& rank, std::int64_t step) {
    rank.step = step;
    rank.value = static_cast<double>(step * 100 + rank.group->rank());
    return rank.manager.save_async(step, rank.state);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, NoThread, testing::Values(1, 3));

TEST_P(NoThread, ASaveThatIsNotWrittenFailsOnAllRanks) {
  for (const int refusing : {0, GetParam() - 1}) {
    for (const int task : {1, 2}) {  // the second is rank 0's commit
      if (task == 2 && refusing > 0) continue;
      SCOPED_TRACE(cat("rank ", refusing, ", task ", task));
      const auto step = 10 * (refusing + 1) + task;
      job_refused(refusing, task, [&](Rank& rank) {
        const auto handle = start(rank, step);
        expect_error(rank, Code::io, "no thread is left", [&] { rank.manager.wait(); });
        EXPECT_EQ(handle.stage(), SaveStage::failed);
        start(rank, step + 5);
        rank.manager.wait();
        EXPECT_EQ(rank.latest(), step + 5);
        EXPECT_THAT(rank.steps(), testing::ElementsAre(step + 5));
      });
    }
  }
}

TEST_P(NoThread, WhatIsNotTidiedIsTidiedLater) {
  job_refused(0, 6, [&](Rank& rank) {
    for (const int step : {1, 2}) {
      start(rank, step);
      rank.manager.wait();
    }
    EXPECT_THAT(rank.steps(), testing::ElementsAre(1, 2));
    start(rank, 3);
    rank.manager.wait();
    EXPECT_THAT(rank.steps(), testing::ElementsAre(3));
    EXPECT_EQ(rank.latest(), 3);
  });
}

}  // namespace
}  // namespace cairn
