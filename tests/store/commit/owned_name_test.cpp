// Threads of one process that become owners of names in one directory at the same time.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <barrier>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "io/expect_error.hpp"
#include "store/commit/ownership.hpp"
#include "testing/memory.hpp"

namespace cairn::commit {
namespace {

// Records the threads that were refused a lock, which another process holds.
class CountingLocks : public io::MemoryFileSystem {
 public:
  std::unique_ptr<io::Lock> try_lock(const io::Path& path) override {
    auto lock = io::MemoryFileSystem::try_lock(path);
    if (!lock) {
      const std::lock_guard guard(mutex_);
      refused_.insert(std::this_thread::get_id());
      changed_.notify_all();
    }
    return lock;
  }
  void wait_for_refused_threads(std::size_t count) {
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [&] { return refused_.size() >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::thread::id> refused_;
};

TEST(OwnedName, TwoThreadsThatWaitShareTheDirectory) {
  const auto files = std::make_shared<CountingLocks>();
  std::optional<Ownership> stranger = Ownership::take(files, "/run", 0);
  std::optional<OwnedName> held[2];
  std::string errors[2];
  std::vector<std::jthread> threads;
  for (const int i : {0, 1}) {
    threads.emplace_back([&, i] {
      try {
        held[i] = OwnedName::take(files, "/run", i == 0 ? "ckpt" : "export", 5);
      } catch (const Error& error) {
        errors[i] = error.what();
      }
    });
  }
  files->wait_for_refused_threads(2);
  stranger.reset();
  threads.clear();
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "");
  ASSERT_TRUE(held[0] && held[1]);
  held[0]->check();
  held[1]->check();
}

// No thread gets the error that the directory is busy while another thread of the process takes it.
TEST(OwnedName, ManyNamesAtOnceWithoutWaiting) {
  for (int round = 0; round < 50; ++round) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    std::optional<OwnedName> held[8];
    std::string errors[8];
    std::barrier start(8);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        try {
          held[i] =
              OwnedName::take(files, "/run", std::string_view("name-" + std::to_string(i)), 0);
        } catch (const Error& error) {
          errors[i] = error.what();
        }
      });
    }
    threads.clear();
    for (const auto& error : errors) ASSERT_EQ(error, "");
  }
}

// This process owns the directory: it holds the name already, or the owner is another copy of the
// library.
TEST(OwnedName, ThisProcessHasTheDirectory) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto take = [&] { return OwnedName::take(files, "/run", "ckpt", 0); };
  {
    const auto held = take();
    EXPECT_CAIRN_ERROR(take(), Code::busy, "saves under the name 'ckpt' there");
  }
  const auto others = Ownership::take(files, "/run", 0);
  EXPECT_CAIRN_ERROR(take(), Code::busy, "another copy of the library in it is the owner");
}

TEST(OwnedName, AnotherProcessHasTheDirectory) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const io::Path directory = "/run";
  const auto take = [&] { return OwnedName::take(files, directory, "ckpt", 0); };
  const auto owner = Ownership::take(files, directory, 0);
  auto other = owner.record();
  other.pid = ::getppid();
  other.job = "";
  const auto hold = [&] {
    io::replace_file(*files, directory / ".cairn/owner", print_owner(other));
  };
  hold();
  const auto who = cat(" (its owner is process ", other.pid, " on host ", other.host);
  EXPECT_CAIRN_ERROR(take(), Code::busy, cat("is in use: ", directory.string(), who, ", since "));
  EXPECT_CAIRN_ERROR(take(), Code::busy, "open read-only.");
  ::setenv("SLURM_JOB_ID", "1234", 1);
  other.job = "77";
  hold();
  EXPECT_CAIRN_ERROR(take(), Code::busy, cat("is in use: ", directory.string(), who, ", job 77"));
  other.job = "1234";
  hold();
  EXPECT_CAIRN_ERROR(take(), Code::busy,
                     cat("is in use by this very job: ", directory.string(), who, ", job 1234"));
  EXPECT_CAIRN_ERROR(take(), Code::busy, cat("this is process ", ::getpid(), " on host "));
  EXPECT_CAIRN_ERROR(take(), Code::busy, "Give each component of a job a directory of its own");
  ::unsetenv("SLURM_JOB_ID");
  ::setenv("PMIX_NAMESPACE", "1234", 1);  // of mpirun, without a batch system
  EXPECT_CAIRN_ERROR(take(), Code::busy, "is in use by this very job");
  ::unsetenv("PMIX_NAMESPACE");
}

}  // namespace
}  // namespace cairn::commit
