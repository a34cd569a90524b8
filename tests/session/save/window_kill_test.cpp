// Processes that are killed while a save reads their state, or just after they have released it and
// write over it: every byte of what the next process restores is of the step that was asked for.
// CAIRN_KILLS: how many are killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "io/temporary_directory.hpp"

namespace cairn {
namespace {

constexpr std::size_t elements = 300'000;  // 2.4 MB: the release comes while it is written

struct KilledState {
  std::int64_t step = 0;
  std::vector<double> a = std::vector<double>(elements), b = std::vector<double>(elements);
  State state;

  KilledState() {
    const Dims shape{500, static_cast<std::int64_t>(elements) / 500 - 1};
    state.add("step", step).add("a", whole(&a));
    state.add("b", whole(b.data(), shape, {shape[1] + 1, 1}));
  }
  void fill(std::int64_t at) {
    step = at;
    a.assign(elements, static_cast<double>(at));
    b.assign(elements, static_cast<double>(-at));
  }
  bool is(std::int64_t at) const {
    for (std::size_t i = 0; i < elements; ++i) {
      const bool halo = i % (elements / 500) == elements / 500 - 1;
      if (a[i] != static_cast<double>(at) || (!halo && b[i] != static_cast<double>(-at))) {
        return false;
      }
    }
    return step == at;
  }
};

ManagerOptions killed_options() {
  ManagerOptions options;
  options.keep.last = 2;
  options.write.owner_wait_seconds = 0;
  return options;
}

// Tells the parent of each thing that it does, until the parent kills it.
[[noreturn]] void save_until_killed(const std::string& directory, int tell) {
  set_log_sink({});
  ::alarm(120);
  KilledState mine;
  CheckpointManager manager(serial_group(), directory, killed_options());
  const auto report = manager.restore_latest(mine.state);
  const auto first = report ? report->step : 0;
  if (report && !mine.is(first)) ::_exit(3);
  const auto say = [&](std::int64_t what) {
    if (::write(tell, &what, sizeof what) != sizeof what) ::_exit(4);
  };
  for (auto step = first + 1;; ++step) {
    mine.fill(step);
    say(-1);
    const auto handle = manager.save_async(step, mine.state, {.until = Until::released});
    say(-1);
    handle.release();
    mine.fill(1'000'000 + step);  // is not to be saved
    say(-1);
    if (step % 3 == 0) manager.wait();
    if (handle.committed()) say(step);
  }
}

TEST(WindowKill, EveryByteIsOfTheStepThatWasAskedFor) {
  set_log_sink({});
  test::TemporaryDirectory directory;
  const auto path = (directory.path() / "run").string();
  std::mt19937 random(20);
  std::int64_t committed = 0;
  const char* rounds = std::getenv("CAIRN_KILLS");
  for (int round = 0; round < (rounds ? std::atoi(rounds) : 12); ++round) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const auto child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe[0]);
      save_until_killed(path, pipe[1]);
    }
    ::close(pipe[1]);
    // Killed after so many things, wherever its writing thread is then.
    for (auto things = 1 + random() % 25; things > 0; --things) {
      std::int64_t what = 0;
      ASSERT_EQ(::read(pipe[0], &what, sizeof what), static_cast<ssize_t>(sizeof what))
          << "the child ended by itself";
      committed = std::max(committed, what);
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    ::close(pipe[0]);
    KilledState mine;
    CheckpointManager manager(serial_group(), path, killed_options());
    const auto report = manager.restore_latest(mine.state);
    ASSERT_GE(report ? report->step : 0, committed) << "round " << round;
    if (report) ASSERT_TRUE(mine.is(report->step)) << "round " << round;
  }
  EXPECT_GT(committed, 0);
}

}  // namespace
}  // namespace cairn
