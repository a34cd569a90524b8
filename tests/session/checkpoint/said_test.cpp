// What a job logs unasked, about things that its application may not know.
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::IsEmpty;

class Said : public MemoryRun {
 protected:
  Said() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      const std::lock_guard guard(mutex_);
      said_[level == LogLevel::info ? 0 : 1].emplace_back(text);
    });
  }
  ~Said() override { set_log_sink(nullptr); }
  // The warnings that a job logs.
  template <class F>
  std::vector<std::string> warnings(F&& body) {
    said_[1].clear();
    job(std::forward<F>(body));
    return said_[1];
  }

  std::mutex mutex_;
  std::vector<std::string> said_[2];  // info, and what is worse
};

TEST_P(Said, ARunThatRestoresNothingAndLetsAnothersCheckpointsGo) {
  options_.keep.last = 3;
  EXPECT_THAT(warnings([](RunRank& run) { run.save(1), run.save(2); }), IsEmpty());
  EXPECT_THAT(warnings([](RunRank& run) { run.save(3); }), IsEmpty()) << "all of them stay";
  // A job that goes on from the newest.
  EXPECT_THAT(warnings([](RunRank& run) {
                run.latest();
                run.save(4);
              }),
              IsEmpty());
  const auto told = ElementsAre(
      AllOf(test::Says("has restored none of the 3 checkpoints there (the newest is step 4)"),
            test::Says("Restore first")));
  EXPECT_THAT(warnings([](RunRank& run) { run.save(11), run.save(12); }), told);
  // One that restores a step, which is as good.
  EXPECT_THAT(warnings([](RunRank& run) {
                run.manager.restore(11, run.state);
                run.save(13);
              }),
              IsEmpty());
  // All steps are kept, and the run leaves them behind.
  options_.keep.last = 0;
  EXPECT_THAT(warnings([](RunRank& run) { run.save(5); }),
              ElementsAre(test::Says("steps that are not lower are left behind")));
}

TEST_P(Said, WhatTheStateHasNotWantedAndWhatItKeeps) {
  job([](RunRank& run) { run.save(1); });
  said_[0].clear();
  EXPECT_THAT(warnings([](RunRank& run) {
                State part;
                std::int64_t fresh = 7;
                part.add("step", run.step);
                part.add("fresh", fresh);
                run.manager.restore_latest(part, {.may_be_missing = {"fresh"}});
              }),
              ElementsAre(test::Says("the state has not wanted: 'value'. Add what was forgotten")));
  EXPECT_THAT(said_[0], testing::Contains(test::Says("which stay as they are: 'fresh'")).Times(1));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Said, testing::Values(1, 3));

}  // namespace
}  // namespace cairn::test
