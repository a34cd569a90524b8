#include "cairn/background.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "cairn/error.hpp"
#include "support/no_threads.hpp"

namespace cairn {
namespace {

TEST(TaskQueue, RunsTasksInOrder) {
  for (const auto& queue : {thread_queue(), inline_queue()}) {
    std::vector<int> done;
    for (int task = 0; task < 5; ++task) queue->run([&done, task] { done.push_back(task); });
    queue->drain();
    EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4}));
  }
}

// The caller was told that the task was refused, and has gone on without it.
TEST(TaskQueue, WhatItCouldNotTakeIsNeverRun) {
  std::vector<int> done;
  const auto queue = thread_queue();
  {
    const test::NoThreads none;
    try {
      queue->run([&] { done.push_back(1); });
      ADD_FAILURE() << "a thread was started";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::io) << error.what();
    }
    queue->drain();
  }
  queue->run([&] { done.push_back(2); });
  queue->drain();
  EXPECT_EQ(done, (std::vector<int>{2}));
}

}  // namespace
}  // namespace cairn
