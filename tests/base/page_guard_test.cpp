// Writes to protected memory, by the program and by the kernel for it.
#include "base/page_guard.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

namespace cairn {
namespace {

using Way = PageGuard::Way;

class Guarded : public testing::TestWithParam<Way> {
 protected:
  Guarded() {
    bytes_ = static_cast<std::byte*>(
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(bytes_, 1, size / 2);  // the other half has no pages yet
  }
  ~Guarded() override { ::munmap(bytes_, size); }
  void SetUp() override {
    if (!PageGuard::make({}, GetParam())) GTEST_SKIP() << "this process may not";
  }
  std::unique_ptr<PageGuard> guard(std::vector<PageGuard::Range> ranges) {
    return PageGuard::make(ranges, GetParam());
  }

  static constexpr std::size_t page = 4096, size = 64 * page;
  std::byte* bytes_ = nullptr;
};

TEST_P(Guarded, TheFirstWriteIsNotedAndTheProgramGoesOn) {
  const auto one = guard({{bytes_, 8 * page, 7}, {bytes_ + 40 * page, 8 * page, 9}});
  ASSERT_TRUE(one);
  EXPECT_EQ(bytes_[5], std::byte{1});  // reading is no writing
  bytes_[20 * page] = std::byte{2};    // nor is a write elsewhere
  EXPECT_FALSE(one->written());
  std::thread([&] { bytes_[3 * page + 5] = std::byte{2}; }).join();
  EXPECT_EQ(one->written(), 7u);
  bytes_[41 * page] = std::byte{3};
  EXPECT_EQ(one->written(), 7u) << "the first one counts";
  EXPECT_EQ(bytes_[3 * page + 5], std::byte{2});
  EXPECT_EQ(bytes_[41 * page], std::byte{3});
}

TEST_P(Guarded, MemoryThatWasNeverWrittenIsProtectedToo) {
  const auto one = guard({{bytes_ + 40 * page, 8 * page, 3}});
  bytes_[42 * page] = std::byte{1};
  EXPECT_EQ(one->written(), 3u);
}

TEST_P(Guarded, OnlyWholePagesAreProtected) {
  const auto one = guard({{bytes_ + 100, 2 * page, 1}});
  bytes_[100] = bytes_[2 * page + 50] = std::byte{5};
  EXPECT_FALSE(one->written());
  bytes_[page] = std::byte{5};
  EXPECT_EQ(one->written(), 1u);
}

TEST_P(Guarded, AfterTheEndEverythingIsAsBefore) {
  for (int i = 0; i < 100; ++i) {
    auto one = guard({{bytes_, size, 1}});
    ASSERT_TRUE(one);
    one.reset();
    std::memset(bytes_, i, size);
  }
}

// Memory that the program may only read, such as constants, is not writable afterwards.
TEST_P(Guarded, WhatMayOnlyBeReadStaysSo) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_EQ(::write(pipe[1], "hellohello", 10), 10);  // no read waits
  ASSERT_EQ(::mprotect(bytes_ + 4 * page, 4 * page, PROT_READ), 0);
  auto one = guard({{bytes_, 12 * page, 1}});
  ASSERT_TRUE(one);
  bytes_[9 * page] = std::byte{3};
  EXPECT_EQ(one->written(), 1u);
  one.reset();
  EXPECT_EQ(::read(pipe[0], bytes_ + 5 * page, 5), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(::read(pipe[0], bytes_ + page, 5), 5);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_P(Guarded, SeveralAtATime) {
  const auto one = guard({{bytes_, 4 * page, 1}});
  const auto other = guard({{bytes_ + 4 * page, 4 * page, 2}});
  bytes_[5 * page] = std::byte{5};
  EXPECT_FALSE(one->written());
  EXPECT_EQ(other->written(), 2u);
}

// A system call that writes into the memory: userfaultfd sees it, mprotect makes it fail.
TEST_P(Guarded, TheKernelWrites) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_EQ(::write(pipe[1], "hello", 5), 5);
  const auto one = guard({{bytes_, 4 * page, 4}});
  const auto got = ::read(pipe[0], bytes_ + page, 5);
  if (GetParam() == Way::userfaultfd) {
    EXPECT_EQ(got, 5);
    EXPECT_EQ(one->written(), 4u);
    EXPECT_EQ(std::memcmp(bytes_ + page, "hello", 5), 0);
  } else {
    EXPECT_EQ(got, -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_FALSE(one->written());
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}

INSTANTIATE_TEST_SUITE_P(Ways, Guarded, testing::Values(Way::userfaultfd, Way::mprotect),
                         [](const auto& info) {
                           return info.param == Way::userfaultfd ? "userfaultfd" : "mprotect";
                         });

// Faults that are none of ours end the program, or go to who handled them before.
TEST(GuardedDeathTest, OtherFaultsAreNotOurs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fault = [] { *static_cast<volatile int*>(nullptr) = 1; };
#ifdef CAIRN_SANITIZED  // the sanitizer has handled them before
  const auto ended = [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) != 0; };
#else
  const testing::KilledBySignal ended(SIGSEGV);
#endif
  EXPECT_EXIT(
      {
        const auto one = PageGuard::make({}, Way::mprotect);
        fault();
      },
      ended, "");
  EXPECT_EXIT(
      {
        struct sigaction mine = {};
        mine.sa_handler = [](int) { ::_exit(17); };
        ::sigaction(SIGSEGV, &mine, nullptr);
        const auto one = PageGuard::make({}, Way::mprotect);
        fault();
      },
      testing::ExitedWithCode(17), "");
}

}  // namespace
}  // namespace cairn
