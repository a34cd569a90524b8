// Processes that stop together, and what is left of a reduction that was given up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"
#include "mpi/mpi_kit.hpp"
#include "mpi/mpi_reduction.hpp"

namespace cairn {
namespace {

using test::Directory;

// A job of 40 steps in a directory; returns the step at which it stopped.
struct Job {
  std::shared_ptr<Group> group = mpi(MPI_COMM_WORLD);
  std::int64_t step = 0;
  double value = 0;
  std::optional<StopReason> stopped;
  bool asynchronous = false;

  void run(const std::filesystem::path& directory, const StopOptions& how,
           const std::function<void(std::int64_t, StopRequest&)>& on) {
    State state;
    state.add("step", step);
    state.add("value", slice(&value, {group->size()}, {group->rank()}, {1}));
    ManagerOptions options;
    const auto stop = options.when.stop = std::make_shared<StopRequest>(how);
    CheckpointManager manager(group, directory, options);
    manager.restore_latest(state);
    while (step < 40 && !stopped) {
      ++step;
      value += group->rank() + 1;
      on(step, *stop);
      if (manager.should_save(step)) {
        if (asynchronous) manager.save_async(step, state);
        if (!asynchronous) manager.save(step, state);
      }
      stopped = manager.should_stop();
    }
    manager.wait();
  }
};

TEST(MpiRounds, OneProcessGetsASignalAllSaveAndTheNextJobGoesOn) {
  for (const bool asynchronous : {false, true}) {
    const auto world = mpi(MPI_COMM_WORLD);
    const Directory directory(*world);
    const int who = world->size() - 1;
    Job first;
    first.asynchronous = asynchronous;
    first.run(directory.path(), {.signals = {SIGUSR1}, .time_limit = false},
              [&](std::int64_t step, StopRequest&) {
                if (step == 11 && first.group->rank() == who) raise(SIGUSR1);
              });
    ASSERT_TRUE(first.stopped);
    EXPECT_EQ(first.stopped->text(), cat("SIGUSR1 on rank ", who));
    EXPECT_EQ(first.step, 12);
    Job second;
    second.run(directory.path(), {.signals = {}, .time_limit = false},
               [&](std::int64_t step, StopRequest&) { EXPECT_GT(step, 12); });
    EXPECT_FALSE(second.stopped);
    EXPECT_EQ(second.step, 40);
    EXPECT_EQ(second.value, 40.0 * (second.group->rank() + 1));
  }
}

TEST(MpiRounds, TheFileStopsAllAtOneStep) {
  const auto world = mpi(MPI_COMM_WORLD);
  const Directory directory(*world);
  Job job;
  job.run(directory.path(), {.signals = {}, .time_limit = false, .look_seconds = 0},
          [&](std::int64_t step, StopRequest&) {
            if (step == 5 && job.group->rank() == 0) {
              std::fclose(std::fopen((directory.path() / "STOP").c_str(), "w"));
            }
          });
  ASSERT_TRUE(job.stopped);
  EXPECT_EQ(job.stopped->text(), cat("file ", (directory.path() / "STOP").string()));
  EXPECT_EQ(job.step, 6);
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "STOP"));
}

// To free a communicator is collective, and ranks find out at different moments that they may do
// so.
TEST(MpiReductions, TheCommunicatorOfOneThatWasGivenUpStaysUntilTheEnd) {
  static int freed = 0;
  const auto count = [](MPI_Comm, int, void*, void*) -> int {
    ++freed;
    return MPI_SUCCESS;
  };
  int key = MPI_KEYVAL_INVALID;
  ASSERT_EQ(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, count, &key, nullptr), MPI_SUCCESS);
  MPI_Comm marked = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &marked), MPI_SUCCESS);
  ASSERT_EQ(MPI_Comm_set_attr(marked, key, nullptr), MPI_SUCCESS);
  {
    const auto group = mpi(marked);
    auto given_up = group->reduction(1, Group::Op::sum);
    given_up->begin(std::array{std::int64_t{1}});
  }
  const auto other = mpi(MPI_COMM_WORLD);
  const auto sum = other->reduction(1, Group::Op::sum);
  std::array<std::int64_t, 1> value{};
  for (int turn = 0; turn < 1'000'000; ++turn) {
    value[0] = reductions_left_over();
    sum->begin(value);
    sum->end(value);
    if (value[0] == 0) break;
  }
  EXPECT_EQ(value[0], 0);
  EXPECT_EQ(freed, 0);
  EXPECT_EQ(MPI_Comm_free(&marked), MPI_SUCCESS);
  EXPECT_EQ(freed, 1);
  MPI_Comm_free_keyval(&key);
}

TEST(MpiReductions, WhatIsGivenUpIsLetGoLater) {
  for (int turn = 0; turn < 3; ++turn) {
    const auto group = mpi(MPI_COMM_WORLD);
    auto given_up = group->reduction(1, Group::Op::sum);
    given_up->begin(std::array{std::int64_t{1}});
    given_up.reset();
    // The group may be destroyed, too; other groups are used after it.
  }
  const auto group = mpi(MPI_COMM_WORLD);
  const auto sum = group->reduction(1, Group::Op::sum);
  std::array<std::int64_t, 1> value{};
  // All ranks have begun a reduction and given it up: it completes as ranks go on.
  for (int turn = 0; turn < 1'000'000; ++turn) {
    value[0] = reductions_left_over();
    sum->begin(value);
    sum->end(value);
    if (value[0] == 0) break;
  }
  EXPECT_EQ(value[0], 0);
  // The last one is left to MPI_Finalize.
  auto last = group->reduction(1, Group::Op::sum);
  last->begin(value);
}

}  // namespace
}  // namespace cairn
