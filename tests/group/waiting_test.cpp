// Ranks that wait for others: what the log says, and how the wait ends.
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <future>
#include <mutex>

#include "base/text.hpp"
#include "base/watch.hpp"
#include "cairn/log.hpp"
#include "cairn/shared_files.hpp"
#include "group/call_group.hpp"
#include "group/collectives.hpp"
#include "support/group_around.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using test::expect_error;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(RanksText, CutsLongListsShort) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({3, 4}), "ranks 3, 4");
  EXPECT_EQ(ranks_text({0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9");
  std::vector<int> many;
  for (int rank = 0; rank < 100; rank += 2) many.push_back(rank);
  EXPECT_EQ(ranks_text(many), "ranks 0, 2, 4, 6, 8, 10, 12, 14, …");
}

TEST(WaitText, SaysWhoWaitsInWhatAndForWhom) {
  WaitTold wait;
  wait.rank = 2;
  wait.ranks = 8;
  wait.seconds = 60.04;
  wait.call = "CheckpointManager::save";
  wait.object = " of 'ckpt' in /run";
  EXPECT_EQ(wait_text(wait),
            "rank 2 of 8 has waited 60 s in CheckpointManager::save of 'ckpt' in /run for other "
            "ranks to make the same call: they are at something else, or have ended");
  wait.awaited = {1, 5};
  EXPECT_EQ(wait_text(wait),
            "rank 2 of 8 has waited 60 s in CheckpointManager::save of 'ckpt' in /run for ranks 1, "
            "5 to make the same call");
  wait.stage = "in a broadcast";
  wait.peer = 0;
  EXPECT_EQ(wait_text(wait),
            "rank 2 of 8 has waited 60 s in CheckpointManager::save of 'ckpt' in /run, in a "
            "broadcast, for rank 0, which is in this call too, at its part of it");
  wait.peer = -1;
  EXPECT_THAT(wait_text(wait),
              EndsWith(", for ranks 1, 5, which are in this call too, at their part of it"));
  wait.awaited.clear();
  EXPECT_THAT(wait_text(wait),
              EndsWith(", for other ranks, which are in this call too, at their part of it"));
  wait.call = nullptr;
  EXPECT_EQ(wait_text(wait),
            "rank 2 of 8 has waited 60 s in a collective call of 'ckpt' in /run, in a broadcast, "
            "for other ranks");
}

TEST(Patience, TellsWhenTheWaitHasDoubledAndEndsIt) {
  using Verdict = Patience::Verdict;
  const WaitLimits limits{.log_seconds = 60, .end_seconds = 300};
  Patience patience;
  EXPECT_EQ(patience.judge(59, limits, true), Verdict::none);
  EXPECT_EQ(patience.judge(61, limits, true), Verdict::tell);
  EXPECT_EQ(patience.judge(119, limits, true), Verdict::none);
  EXPECT_EQ(patience.judge(121, limits, true), Verdict::none);
  EXPECT_EQ(patience.judge(122, limits, true), Verdict::tell);
  EXPECT_EQ(patience.judge(243, limits, true), Verdict::none);
  EXPECT_EQ(patience.judge(244, limits, true), Verdict::tell);
  EXPECT_EQ(patience.judge(299, limits, true), Verdict::none);
  EXPECT_EQ(patience.judge(300, limits, true), Verdict::end);
  patience.begin_anew();
  EXPECT_EQ(patience.judge(60, limits, true), Verdict::tell);
  // A rank that does not log ends the job last.
  Patience silent;
  EXPECT_EQ(silent.judge(299, limits, false), Verdict::none);
  EXPECT_EQ(silent.judge(309, limits, false), Verdict::none);
  EXPECT_EQ(silent.judge(310, limits, false), Verdict::end);
  Patience endless;
  EXPECT_EQ(endless.judge(1e9, {.log_seconds = 0, .end_seconds = 0}, true), Verdict::none);
  std::vector<int> speakers;
  for (int rank = 0; rank < 40; ++rank) {
    if (speaks_of_waits(rank)) speakers.push_back(rank);
  }
  EXPECT_EQ(speakers, (std::vector<int>{0, 1, 2, 4, 8, 16, 32}));
}

TEST(Limits, AreChecked) {
  const auto before = wait_limits();
  EXPECT_EQ(before.log_seconds, 60);
  EXPECT_EQ(before.end_seconds, 0);
  for (const WaitLimits bad : {WaitLimits{-1, 0}, WaitLimits{0, -1}, WaitLimits{NAN, 0}}) {
    expect_error([&] { set_wait_limits(bad); }, Code::invalid_argument, HasSubstr("WaitLimits"));
  }
  EXPECT_EQ(wait_limits().log_seconds, 60);
}

/// Collects the log, and lets a rank do nothing until a message has come.
class Heard {
 public:
  Heard() {
    set_log_sink([said = said_](LogLevel, std::string_view message) {
      const std::lock_guard guard(said->mutex);
      said->lines.emplace_back(message);
      said->changed.notify_all();
    });
  }
  ~Heard() {
    set_wait_limits({});
    set_log_sink([](LogLevel, std::string_view) {});
  }
  std::string wait_for(std::string_view text) {
    std::unique_lock lock(said_->mutex);
    std::string found;
    said_->changed.wait(lock, [&] {
      for (const auto& line : said_->lines) {
        if (line.find(text) != line.npos) return found = line, true;
      }
      return false;
    });
    return found;
  }

 private:
  struct Said {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> lines;
  };
  // The watch may still write a message when the test is over.
  std::shared_ptr<Said> said_ = std::make_shared<Said>();
};

TEST(Waits, AreToldWithTheRanksThatAreMissing) {
  Heard heard;
  set_wait_limits({.log_seconds = 0.01, .end_seconds = 0});
  std::promise<void> over;
  run_threads(3, [&](std::shared_ptr<Group> plain) {
    const auto group = CallGroup::of(plain);
    group->describe(" of 'ckpt' in /run");
    const auto call = [&] { collective_call(*group, "a save", [&] { group->check_entry(); }); };
    if (group->rank() == 1) {
      EXPECT_THAT(heard.wait_for("rank 0 of 3 has waited"),
                  AllOf(test::Says(" in a save of 'ckpt' in /run for rank"),
                        test::Says("to make the same call")));
      heard.wait_for("for rank 1 to make the same call");
    }
    call();
  });
  heard.wait_for("rank 0 goes on in a save after");
}

TEST(Waits, ForOneRankNameItAndTheStage) {
  Heard heard;
  set_wait_limits({.log_seconds = 0.01, .end_seconds = 0});
  run_threads(3, [&](std::shared_ptr<Group> plain) {
    const auto group = CallGroup::of(plain);
    const auto hold_back = [&](int who, const char* until) {
      if (group->rank() == who) heard.wait_for(until);
    };
    collective_call(*group, "a save", [&] {
      hold_back(1, "in a reduction, for rank 1, which is in this call too");
      all_of(*group, true);
      hold_back(2, "rank 0 of 3 has waited 0 s in a save, in a broadcast, for rank 2");
      broadcast_text(*group, "x", 2);
      hold_back(1, "at a message, for rank 1");
      if (group->rank() == 1) group->send(0, "x");
      if (group->rank() == 0) group->receive(1);
      hold_back(1, "in a barrier, for rank 1");
      group->barrier();
    });
  });
}

// Collective calls in which ranks wait for each other, like those of MPI-IO and libhdf5.
class WaitingFiles final : public test::GroupAround, public SharedFiles, public DatasetFiles {
 public:
  using GroupAround::GroupAround;
  SharedFiles* shared_files() override { return this; }
  DatasetFiles* dataset_files() override { return this; }
  std::string library() const override { return ""; }
  void check(const SharedFiles::Hints&) const override {}
  std::string doubt(const SharedFiles::Hints&) const override { return ""; }
  std::unique_ptr<SharedFile> open(const PathText&, int, const SharedFiles::Hints&) override {
    barrier();
    return nullptr;
  }
  std::unique_ptr<DatasetFile> open(const PathText&, const SharedFiles::Hints&) override {
    barrier();
    return nullptr;
  }
};

TEST(Waits, InsideOfOtherLibrariesAreToldToo) {
  Heard heard;
  set_wait_limits({.log_seconds = 0.01, .end_seconds = 0});
  run_threads(2, [&](std::shared_ptr<Group> plain) {
    const auto group = CallGroup::of(std::make_shared<WaitingFiles>(plain));
    collective_call(*group, "a save", [&] {
      if (group->rank() == 1) heard.wait_for("in a save, in a collective call of MPI-IO, for");
      group->shared_files()->open("file", 0, {});
      if (group->rank() == 1) heard.wait_for("in a save, in a collective call of libhdf5, for");
      group->dataset_files()->open("file", {});
    });
  });
}

class WaitDeathTest : public ::testing::Test {
 protected:
  WaitDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(WaitDeathTest, ForTooLongEndsTheJobThroughTheHandler) {
  const auto wait_for_ever = [] {
    set_fatal_handler([](std::string_view message) {
      std::fprintf(stderr, "handler: %.*s\n", static_cast<int>(message.size()), message.data());
      throw 1;  // is ignored
    });
    set_wait_limits({.log_seconds = 0, .end_seconds = 0.01});
    run_threads(2, [&](std::shared_ptr<Group> plain) {
      const auto group = CallGroup::of(plain);
      if (group->rank() == 1) std::promise<void>().get_future().wait();
      collective_call(*group, "a save", [&] { group->check_entry(); });
    });
  };
  EXPECT_EXIT(wait_for_ever(), ::testing::ExitedWithCode(EXIT_FAILURE),
              "cairn: error: the job ends: rank 0 of 2 has waited .* in a save for rank 1 to make "
              "the same call .WaitLimits::end_seconds is 0.01.\nhandler: the job ends: rank 0");
}

TEST_F(WaitDeathTest, AnAbortGoesThroughLogAndHandler) {
  const auto abort = [] {
    set_log_sink([](LogLevel level, std::string_view message) {
      if (level == LogLevel::error) std::fprintf(stderr, "log: %s\n", std::string(message).c_str());
    });
    set_fatal_handler([](std::string_view message) {
      std::fprintf(stderr, "handler: %s\n", std::string(message).c_str());
    });
    collective_call(*serial_group(), "a save",
                    [] { throw Error(Code::communication, "wire cut"); });
  };
  EXPECT_EXIT(abort(), ::testing::KilledBySignal(SIGABRT), "log: wire cut\nhandler: wire cut\n");
}

TEST_F(WaitDeathTest, NoJobEndsWithoutAWord) {
  const auto abort = [] {
    set_log_sink({});
    serial_group()->abort("wire cut");
  };
  EXPECT_EXIT(abort(), ::testing::KilledBySignal(SIGABRT), "^cairn: error: wire cut\n");
}

}  // namespace
}  // namespace cairn
