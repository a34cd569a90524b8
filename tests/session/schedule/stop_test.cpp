// Handlers of signals take notes, call earlier handlers, and are removed again; reasons are
// readable.
#include "cairn/stop.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "cairn/error.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

std::atomic<int> plain_calls, info_calls, info_sender, once_calls;

extern "C" void plain_handler(int) {
  ++plain_calls;
  errno = EDOM;
}
extern "C" void info_handler(int, siginfo_t* info, void*) {
  ++info_calls;
  info_sender = info->si_pid;
}
extern "C" void once_handler(int) { ++once_calls; }

struct sigaction now(int signal) {
  struct sigaction there = {};
  EXPECT_EQ(sigaction(signal, nullptr, &there), 0);
  return there;
}

// Removes after each test what it installed.
class Stop : public testing::Test {
 protected:
  Stop() {
    plain_calls = info_calls = info_sender = once_calls = 0;
    for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM}) put(signal, SIG_DFL);
  }
  ~Stop() override {
    for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM}) put(signal, SIG_DFL);
  }
  static void put(int signal, void (*handler)(int), int flags = 0) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    ASSERT_EQ(sigaction(signal, &action, nullptr), 0);
  }
  static void put_info(int signal) {
    struct sigaction action = {};
    action.sa_sigaction = info_handler;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(signal, &action, nullptr), 0);
  }
};

TEST_F(Stop, NotesTheSignalsThatItWasMadeFor) {
  const StopRequest usr1({.signals = {SIGUSR1}}), both({.signals = {SIGUSR1, SIGUSR2}});
  EXPECT_EQ(usr1.signal(), 0);
  raise(SIGUSR2);
  EXPECT_EQ(usr1.signal(), 0);
  EXPECT_EQ(both.signal(), SIGUSR2);
  raise(SIGUSR1);
  EXPECT_EQ(usr1.signal(), SIGUSR1);
  EXPECT_EQ(both.signal(), SIGUSR1);
  const StopRequest later({.signals = {SIGUSR1}});
  EXPECT_EQ(later.signal(), 0);
}

TEST_F(Stop, WithoutSignalsNothingIsInstalled) {
  const StopRequest none({.signals = {}});
  EXPECT_EQ(now(SIGTERM).sa_handler, SIG_DFL);
  EXPECT_EQ(now(SIGUSR1).sa_handler, SIG_DFL);
}

TEST_F(Stop, CallsThePlainHandlerBeforeAndPutsItBack) {
  put(SIGUSR1, plain_handler);
  {
    const StopRequest stop({.signals = {SIGUSR1}});
    EXPECT_NE(now(SIGUSR1).sa_flags & SA_RESTART, 0);
    errno = 0;
    raise(SIGUSR1);
    EXPECT_EQ(errno, 0);
    EXPECT_EQ(plain_calls, 1);
    EXPECT_EQ(stop.signal(), SIGUSR1);
  }
  EXPECT_EQ(now(SIGUSR1).sa_handler, plain_handler);
  EXPECT_EQ(now(SIGUSR1).sa_flags & (SA_SIGINFO | SA_RESTART), 0);
}

TEST_F(Stop, CallsTheHandlerThatWantsToKnowMore) {
  put_info(SIGUSR1);
  {
    const StopRequest stop({.signals = {SIGUSR1}});
    raise(SIGUSR1);
    EXPECT_EQ(info_calls, 1);
    EXPECT_EQ(info_sender, getpid());
  }
  EXPECT_EQ(now(SIGUSR1).sa_sigaction, info_handler);
}

TEST_F(Stop, AnIgnoredSignalIsIgnoredAgain) {
  put(SIGUSR1, SIG_IGN);
  {
    const StopRequest stop({.signals = {SIGUSR1}});
    raise(SIGUSR1);
    EXPECT_EQ(stop.signal(), SIGUSR1);
  }
  EXPECT_EQ(now(SIGUSR1).sa_handler, SIG_IGN);
}

TEST_F(Stop, TheLastOneOfSeveralPutsBack) {
  put(SIGUSR1, plain_handler);
  auto first = std::make_unique<StopRequest>(StopOptions{.signals = {SIGUSR1}});
  auto second = std::make_unique<StopRequest>(StopOptions{.signals = {SIGUSR1}});
  first.reset();
  raise(SIGUSR1);
  EXPECT_EQ(second->signal(), SIGUSR1);
  EXPECT_EQ(plain_calls, 1);
  second.reset();
  EXPECT_EQ(now(SIGUSR1).sa_handler, plain_handler);
}

TEST_F(Stop, AHandlerForOneCallIsCalledOnce) {
  put(SIGUSR1, once_handler, static_cast<int>(SA_RESETHAND));
  {
    const StopRequest stop({.signals = {SIGUSR1}});
    raise(SIGUSR1);
    raise(SIGUSR1);
    EXPECT_EQ(once_calls, 1);
  }
  EXPECT_EQ(now(SIGUSR1).sa_handler, SIG_DFL);
}

// An application that installs its own handler later, which calls the earlier one, as it should.
struct sigaction below;
extern "C" void handler_above(int signal, siginfo_t* info, void* context) {
  ++info_calls;
  if (below.sa_flags & SA_SIGINFO) below.sa_sigaction(signal, info, context);
}

TEST_F(Stop, AHandlerInstalledMeanwhileStays) {
  put(SIGUSR1, plain_handler);
  {
    const StopRequest stop({.signals = {SIGUSR1}});
    struct sigaction above = {};
    above.sa_sigaction = handler_above;
    above.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGUSR1, &above, &below), 0);
    raise(SIGUSR1);
    EXPECT_EQ(stop.signal(), SIGUSR1);
    EXPECT_EQ(info_calls, 1);
    EXPECT_EQ(plain_calls, 1);
  }
  EXPECT_EQ(now(SIGUSR1).sa_sigaction, handler_above);
  raise(SIGUSR1);  // ours is still below, with nobody to tell
  EXPECT_EQ(plain_calls, 2);
  {
    // Installed on top of the handler that calls ours: no endless loop, and each handler runs once.
    const StopRequest stop({.signals = {SIGUSR1}});
    raise(SIGUSR1);
    EXPECT_EQ(stop.signal(), SIGUSR1);
    EXPECT_EQ(info_calls, 3);
    EXPECT_EQ(plain_calls, 3);
  }
  EXPECT_EQ(now(SIGUSR1).sa_sigaction, handler_above);
  raise(SIGUSR1);
  EXPECT_EQ(plain_calls, 4);
}

// How a child process ends that runs this.
int end_of_child(const std::function<void()>& what) {
  const auto child = fork();
  if (child == 0) {
    what();
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

TEST_F(Stop, BelowAnotherHandlerASignalEndsTheProcessOnceNobodyWantsToKnow) {
  const auto put_above = [] {
    struct sigaction above = {};
    above.sa_sigaction = handler_above;
    above.sa_flags = SA_SIGINFO;
    sigaction(SIGTERM, &above, &below);
  };
  EXPECT_EQ(end_of_child([&] {
              {
                const StopRequest stop({.signals = {SIGTERM}});
                put_above();
                raise(SIGTERM);  // it is wanted
                if (stop.signal() != SIGTERM) _exit(1);
              }
              raise(SIGTERM);
            }),
            SIGTERM);
  // A signal that is ignored by default changes nothing.
  EXPECT_EQ(end_of_child([&] {
              {
                const StopRequest stop({.signals = {SIGURG}});
                struct sigaction above = {};
                above.sa_sigaction = handler_above;
                above.sa_flags = SA_SIGINFO;
                sigaction(SIGURG, &above, &below);
              }
              raise(SIGURG);
              raise(SIGURG);
              if (info_calls != 2) _exit(2);
            }),
            0);
}

TEST_F(Stop, AForkedChildDiesUnlessItWantsToKnowItself) {
  const StopRequest stop({.signals = {SIGTERM, SIGUSR1}});
  EXPECT_EQ(end_of_child([] { raise(SIGTERM); }), SIGTERM);
  EXPECT_EQ(end_of_child([] {
              const StopRequest own({.signals = {SIGTERM}});
              raise(SIGTERM);
              if (own.signal() != SIGTERM) _exit(1);
            }),
            0);
  EXPECT_EQ(end_of_child([] {
              { const StopRequest own({.signals = {SIGTERM}}); }
              raise(SIGTERM);
            }),
            SIGTERM);
  // Copies that end in the child remove nothing of the parent's.
  auto copied = std::make_unique<StopRequest>(StopOptions{.signals = {SIGUSR2}});
  EXPECT_EQ(end_of_child([&] {
              const StopRequest own({.signals = {SIGUSR2}});
              copied.reset();
              raise(SIGUSR2);
              if (own.signal() != SIGUSR2) _exit(1);
            }),
            0);
  raise(SIGTERM);
  EXPECT_EQ(stop.signal(), SIGTERM);
}

TEST_F(Stop, NotesASignalOnAnyThread) {
  const StopRequest stop({.signals = {SIGUSR2}});
  std::thread([] { raise(SIGUSR2); }).join();
  EXPECT_EQ(stop.signal(), SIGUSR2);
}

TEST_F(Stop, TheApplicationAsksAndNotes) {
  StopRequest stop({.signals = {}});
  EXPECT_FALSE(stop.requested());
  std::thread([&] { stop.request(); }).join();
  EXPECT_TRUE(stop.requested());
  stop.note_signal(SIGTERM);
  stop.note_signal(SIGHUP);
  stop.note_signal(SIGTERM);
  EXPECT_EQ(stop.signal(), SIGHUP);
}

TEST_F(Stop, RefusesWhatCannotBe) {
  const auto refused = [](StopOptions options, const std::string& text) {
    try {
      const StopRequest stop(std::move(options));
      ADD_FAILURE() << "no error with " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  refused({.signals = {SIGUSR1, SIGKILL}}, "signal 9 cannot be caught");
  EXPECT_EQ(now(SIGUSR1).sa_handler, SIG_DFL);  // the one before it was put back
  refused({.signals = {0}}, "signal 0 cannot be caught");
  refused({.signals = {4711}}, "signal 4711 cannot be caught");
  refused({.signals = {}, .margin_seconds = -1}, "a number in StopOptions is negative");
  refused({.signals = {}, .file = "a/b"}, "StopOptions::file is 'a/b'");
}

TEST(StopReasons, ReadWellAndKnowTheirExitCode) {
  StopReason reason{.kind = StopKind::signal, .rank = 3, .signal = SIGUSR1};
  EXPECT_EQ(reason.text(), "SIGUSR1 on rank 3");
  EXPECT_EQ(reason.exit_code(), 75);
  reason = {.kind = StopKind::time_limit,
            .end_seconds = 1795356300,
            .left_seconds = 40.2,
            .save_seconds = 21.7};
  EXPECT_EQ(reason.text(), "time limit 2026-11-22 14:05:00 UTC: 40 s left, a save takes 22 s");
  EXPECT_EQ(reason.exit_code(), 75);
  reason.left_seconds = -5;
  reason.save_seconds = -1;
  EXPECT_EQ(reason.text(),
            "time limit 2026-11-22 14:05:00 UTC: over since 5 s, no save was measured");
  reason = {.kind = StopKind::file, .file = "run/STOP"};
  EXPECT_EQ(reason.text(), "file run/STOP");
  EXPECT_EQ(reason.exit_code(), 76);
  reason = {.kind = StopKind::application, .rank = 2};
  EXPECT_EQ(reason.text(), "application, on rank 2");
  EXPECT_EQ(reason.exit_code(), 76);
}

}  // namespace
}  // namespace cairn
