// What a LoadStatus reports and fills: rows of keys that come late, keys that may be missing,
// checkpoints of names alone, SavedModels as text.
#include <gmock/gmock.h>

#include <numeric>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/ragged.hpp"
#include "io/expect_error.hpp"
#include "support/memory_run.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Status : public testing::TestWithParam<int> {
 protected:
  Status() {
    set_log_sink({});
    options_.write.file_system = files_;
    options_.write.owner_wait_seconds = 0;
  }
  template <class F>
  void on_ranks(F&& function) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) { function(std::move(group)); });
  }
  // Saves "n", and ragged "p" = 0, 1, 2, … with 2 + rank rows on each rank; returns the total.
  std::int64_t save() {
    on_ranks([&](std::shared_ptr<Group> group) {
      const int rank = group->rank();
      std::vector<std::int64_t> rows;
      for (std::int64_t i = 0; i < 2 + rank; ++i)
        rows.push_back(2 * rank + rank * (rank - 1) / 2 + i);
      std::int64_t n = 7;
      State state;
      state.add("p", ragged(rows)).add("n", n);
      Checkpoint(group, state, options_).write("/run/all");
    });
    return 2 * GetParam() + GetParam() * (GetParam() - 1) / 2;
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  CheckpointOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Ranks, Status, testing::Values(1, 2, 3));

TEST_P(Status, RowsAreDealtOnceToAllThatBringTheKeyTogether) {
  const auto total = save();
  std::vector<std::int64_t> dealt(static_cast<std::size_t>(GetParam()));
  on_ranks([&](std::shared_ptr<Group> group) {
    std::vector<std::int64_t> rows;
    State state;
    Checkpoint checkpoint(group, state, options_);
    auto status = checkpoint.read("/run/all");
    state.add("p", ragged(rows));
    status.fill().expect_partial();
    dealt[static_cast<std::size_t>(group->rank())] = static_cast<std::int64_t>(rows.size());
  });
  EXPECT_EQ(std::accumulate(dealt.begin(), dealt.end(), std::int64_t{0}), total);
}

TEST_P(Status, RowsThatAreDealtAreNotDealtAgain) {
  const auto total = save();
  on_ranks([&](std::shared_ptr<Group> group) {
    if (group->size() == 1) return;
    const bool is_late = group->rank() == group->size() - 1;
    std::vector<std::int64_t> rows{-1};
    std::int64_t n = 0;
    State state;
    if (!is_late) state.add("p", ragged(rows));
    Checkpoint checkpoint(group, state, options_);
    auto status = checkpoint.read("/run/all");
    const auto before = rows;
    if (is_late) state.add("p", ragged(rows));
    state.add("n", n);
    for (int again = 0; again < 2; ++again) {
      EXPECT_CAIRN_ERROR(
          status.fill(), Code::invalid_argument,
          cat("ragged tensor 'p' was added on rank ", group->size() - 1,
              " after its rows had been dealt to other ranks (each row goes to one rank)"));
      EXPECT_EQ(rows, is_late ? std::vector<std::int64_t>{-1} : before);
      EXPECT_EQ(n, 0) << "nothing is touched";
    }
    status.expect_partial();
    checkpoint.read("/run/all").assert_consumed();
    EXPECT_EQ(static_cast<std::int64_t>(rows.size()),
              total / group->size() + (group->rank() < total % group->size()));
    EXPECT_EQ(n, 7);
  });
}

TEST_P(Status, RowsThatAreNotThereAreDealtToNobody) {
  save();
  on_ranks([&](std::shared_ptr<Group> group) {
    std::vector<std::int64_t> rows{-1};
    State state;
    if (group->rank() == 0) state.add("q", ragged(rows));
    Checkpoint checkpoint(group, state, options_);
    auto status = checkpoint.read("/run/all");
    if (group->rank() != 0) state.add("q", ragged(rows));
    status.fill().expect_partial();
    EXPECT_THAT(status.missing_keys(), ElementsAre("q"));
    EXPECT_THAT(rows, ElementsAre(-1));
  });
}

TEST_P(Status, WhatMayBeMissingFailsNoAssertion) {
  save();
  on_ranks([&](std::shared_ptr<Group> group) {
    std::vector<std::int64_t> rows;
    std::int64_t n = 0, one = 1, two = 2, three = 3;
    State state;
    state.add("p", ragged(rows)).add("n", n).add("one", one);
    if (group->rank() == 0) state.add("two", two);
    Checkpoint checkpoint(group, state, options_);
    EXPECT_CAIRN_ERROR(checkpoint.read("/run/all").assert_existing_objects_matched(),
                       Code::not_found, "2 keys of the state are not in /run/all ('one', 'two')");
    RestoreOptions restore;
    restore.may_be_missing = {"one", "three"};
    auto status = checkpoint.read("/run/all", restore);
    EXPECT_CAIRN_ERROR(status.assert_existing_objects_matched(), Code::not_found,
                       "1 keys of the state are not in /run/all ('two')");
    EXPECT_CAIRN_ERROR(status.assert_consumed(), Code::not_found, "('two')");
    restore.may_be_missing.insert("two");
    status = checkpoint.read("/run/all", restore);
    state.add("three", three);
    status.assert_existing_objects_matched().assert_consumed();
    EXPECT_THAT(status.missing_keys(), ElementsAre("one", "three", "two"));
    restore = {};
    restore.all_may_be_missing = true;
    checkpoint.read("/run/all", restore).assert_existing_objects_matched();
    EXPECT_EQ(one + two + three, 6);
    EXPECT_EQ(n, 7);
  });
}

// As TensorFlow 1 saved: without object graph, counter or our metadata.
TEST_P(Status, ACheckpointOfNamesNeedsNoCounter) {
  files_->create_directory("/old");
  BundleWriter writer("/old/model-7", files_);
  const std::int64_t global_step = 12;
  writer.add("global_step", &global_step, {});
  writer.finish();
  on_ranks([&](std::shared_ptr<Group> group) {
    std::int64_t step = 0;
    State state;
    state.add("global_step", step);
    Checkpoint checkpoint(group, state, options_);
    auto status = checkpoint.restore("/old/model-7");
    EXPECT_THAT(status.missing_keys(), IsEmpty());
    status.assert_consumed().assert_existing_objects_matched();
    EXPECT_EQ(step, 12);
    EXPECT_EQ(checkpoint.save_counter(), 0);
    step = 13;
    EXPECT_EQ(checkpoint.save("/run/ckpt"), "/run/ckpt-1");
  });
}

TEST_P(Status, ASavedModelOfText) {
  files_->create_directory("/model");
  files_->create_directory("/model/variables");
  io::write_file(*files_, "/model/saved_model.pbtxt", "graph");
  BundleWriter writer("/model/variables/variables", files_);
  const std::int64_t epoch = 12;
  writer.add("epoch", &epoch, {});
  writer.finish();
  on_ranks([&](std::shared_ptr<Group> group) {
    std::int64_t mine = 0;
    State state;
    state.add("epoch", mine);
    Checkpoint(group, state, options_).read("/model").assert_consumed();
    EXPECT_EQ(mine, 12);
  });
}

}  // namespace
}  // namespace cairn
