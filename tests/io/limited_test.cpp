// Threads of file operations with a time limit. What happens to saves when the storage does not
// answer is in session/checkpoint/storage_limit_test.cpp.
#include "io/limited.hpp"

#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

#include "cairn/error.hpp"
#include "io/expect_error.hpp"
#include "support/no_threads.hpp"
#include "testing/memory.hpp"

namespace cairn::io {
namespace {

std::string text_of(FileSystem& files, const Path& path) { return read_file(files, path, 100); }

// An operation that was reported as failed is never carried out later.
TEST(Limited, WhatNoThreadWasFoundForIsNeverDone) {
  const auto disk = std::make_shared<MemoryFileSystem>();
  disk->create_directory("/run");
  const auto files = limited(disk, 1e6);
  const auto refused = [&](auto&& operation) {
    const test::NoThreads none;
    try {
      operation();
      ADD_FAILURE() << "a thread was started";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::io) << error.what();
      EXPECT_NE(error.path(), "");
    }
  };
  refused([&] { write_file(*files, "/run/a", "early"); });
  refused([&] { files->create_directory("/run/b"); });
  write_file(*files, "/run/c", "later");
  EXPECT_EQ(disk->list("/run"), (std::vector<std::string>{"c"}));
  EXPECT_EQ(text_of(*files, "/run/c"), "later");
  // The one thread that exists is used again.
  const test::NoThreads none;
  files->rename("/run/c", "/run/d");
  EXPECT_EQ(text_of(*files, "/run/d"), "later");
}

TEST(Limited, WhatHasNotComeBackIsUnavailable) {
  const auto disk = std::make_shared<MemoryFileSystem>();
  const auto files = limited(disk, 1e6);
  std::binary_semaphore answers(0);
  disk->set_observer([&](const std::string&) {
    files->give_up();
    answers.acquire();
  });
  EXPECT_CAIRN_ERROR(files->create_directory("/run"), Code::unavailable, "cannot create directory");
  EXPECT_CAIRN_ERROR(files->list("/"), Code::unavailable, "cannot list directory");
  answers.release();
  files->wait_until_back();
}

// A lock that is released while that thread is stuck is released when the thread comes back.
TEST(Limited, WithoutAThreadALockIsGivenBackByTheNextThatIsFree) {
  const auto disk = std::make_shared<MemoryFileSystem>();
  disk->create_directory("/run");
  const auto files = limited(disk, 1e6);
  auto lock = files->try_lock("/run/lock");
  ASSERT_TRUE(lock);
  std::binary_semaphore reached(0), answers(0);
  disk->set_observer([&](const std::string&) {
    reached.release();
    answers.acquire();
  });
  std::thread other([&] {
    EXPECT_THROW(files->create_directory("/run/stuck"), Error);  // given up after the time limit
  });
  reached.acquire();
  files->give_up();
  other.join();
  disk->set_observer({});
  {
    const test::NoThreads none;
    lock.reset();
  }
  EXPECT_FALSE(disk->try_lock("/run/lock")) << "who gave it back?";
  answers.release();
  files->wait_until_back();
  while (!disk->try_lock("/run/lock")) std::this_thread::yield();
  EXPECT_TRUE(files->status("/run/stuck"));
}

}  // namespace
}  // namespace cairn::io
