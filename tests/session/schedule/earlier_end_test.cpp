// How the earlier run ended, as cairn-job, Slurm and the manager itself have noted it; and what the
// history keeps of that.
#include "session/schedule/earlier_end.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "testing/memory.hpp"

namespace cairn {
namespace {

using End = RunHistory::Restored::End;

RunHistory full_history() {
  RunHistory history;
  history.begin(1'000, 0);
  history.end_well(1'100);
  history.in_vain[3] = {10, 2, false};
  history.in_vain[5] = {20, 3, true};
  history.restored = {7, 30, 9, End::open, "1234.0"};
  history.heard = "a-record";
  return history;
}

TEST(RestoredHistory, IsReadAsItWasWritten) {
  const auto history = full_history();
  EXPECT_EQ(RunHistory::parse(history.print()), history);
  for (const auto end : {End::well, End::stopped}) {
    auto other = history;
    other.restored->end = end;
    EXPECT_EQ(RunHistory::parse(other.print()), other);
  }
}

TEST(RestoredHistory, DamageIsNoticed) {
  const auto text = full_history().print();
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto changed = text;
    changed[i] ^= 1;
    EXPECT_EQ(RunHistory::parse(changed), std::nullopt) << i;
    EXPECT_EQ(RunHistory::parse(text.substr(0, i)), std::nullopt) << i;
  }
}

// Lines that no version writes, with a right checksum.
TEST(RestoredHistory, NonsenseIsNoHistory) {
  const auto parse = [](const std::string& heading, const std::string& lines) {
    const auto text = cat(heading, "\nearlier 0 0\n", lines);
    return RunHistory::parse(cat(text, "checksum ", hex(crc32c(text)), "\n"));
  };
  EXPECT_TRUE(parse("cairn runs 2", "vain 1 2 3 kept\nrestored 1 2 3 open -\nheard x\n"));
  EXPECT_FALSE(parse("cairn runs 1", "vain 1 2 3 kept\n"));
  EXPECT_FALSE(parse("cairn runs 3", ""));
  for (const auto* lines :
       {"vain 1 2 3\n", "vain 1 2 3 maybe\n", "vain 1 2 -3 kept\n",
        "vain 1 2 3 kept\nvain 1 2 3 kept\n", "restored 1 2 3 open\n", "restored 1 2 3 gone -\n",
        "restored 1 2 3 open -\nrestored 1 2 3 open -\n", "heard\n", "heard a\nheard b\n",
        "more 1\n", "\n"}) {
    EXPECT_FALSE(parse("cairn runs 2", lines)) << lines;
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += cat("vain ", i, " 2 3 kept\n");
  EXPECT_FALSE(parse("cairn runs 2", many));
}

// The previous version's format is read; and that version reads this one's, as long as it has only
// runs.
TEST(RestoredHistory, TheEarlierFormatIsRead) {
  const std::string text = "cairn runs 1\nearlier 500 2\nrun 1000 100 well\nrun 2000 0 open\n";
  const auto whole = cat(text, "checksum ", hex(crc32c(text)), "\n");
  const auto history = RunHistory::parse(whole);
  ASSERT_TRUE(history);
  EXPECT_EQ(history->runs.size(), 2U);
  EXPECT_FALSE(history->restored);
  EXPECT_TRUE(history->in_vain.empty());
  EXPECT_EQ(history->print(), whole);
}

TEST(RestoredHistory, TheOldestCountsAreForgotten) {
  RunHistory history;
  for (int i = 1; i <= 100; ++i) {
    history.restored = {i, i, i, End::open, "-"};
    history.count_in_vain();
  }
  EXPECT_EQ(history.in_vain.size(), RunHistory::most_in_vain);
  EXPECT_EQ(history.in_vain.begin()->first, 85);
  for (int i = 0; i < 100; ++i) history.begin(1.7e18, 1.7e18);
  EXPECT_LT(history.print().size(), 8192U);
}

TEST(JobRecords, TellHowACommandEnded) {
  const auto parse = [](const std::string& lines) {
    return JobRecord::parse("cairn-job 1\n" + lines);
  };
  EXPECT_EQ(parse("id a\nstatus 137\nsignals \nlost-nodes 0\n"), (JobRecord{"a", 137, false, 0}));
  EXPECT_EQ(parse("id a\nstatus 1\nsignals TERM USR1\nlost-nodes 2\n"),
            (JobRecord{"a", 1, true, 2}));
  EXPECT_FALSE(parse("id a\nstatus 137"));  // torn
  EXPECT_FALSE(parse("status 137\n"));
  EXPECT_FALSE(parse("id a b\nstatus 137\n"));
  EXPECT_FALSE(parse("id a\n"));
  EXPECT_FALSE(parse("id a\nstatus -1\n"));
  EXPECT_FALSE(JobRecord::parse("cairn-job 2\nid a\nstatus 1\n"));
  for (const int status : {0, 75, 76}) EXPECT_TRUE((JobRecord{"a", status, false, 0}).excuses());
  for (const int status : {1, 134, 137}) EXPECT_FALSE((JobRecord{"a", status, false, 0}).excuses());
  EXPECT_TRUE((JobRecord{"a", 137, true, 0}).excuses());
  EXPECT_TRUE((JobRecord{"a", 137, false, 1}).excuses());
}

TEST(SlurmStates, AreThoseOfOneStart) {
  const std::string text = "77|NODE_FAIL\n78|FAILED\n77|CANCELLED by 1000\n77|RUNNING\n";
  EXPECT_EQ(state_from_sacct(text, "77.0"), "NODE_FAIL");
  EXPECT_EQ(state_from_sacct(text, "77.1"), "CANCELLED");
  EXPECT_EQ(state_from_sacct(text, "78.0"), "FAILED");
  EXPECT_EQ(state_from_sacct(text, "78.1"), std::nullopt);
  EXPECT_EQ(state_from_sacct("", "77.0"), std::nullopt);
  EXPECT_EQ(state_from_sacct(text, "-"), std::nullopt);
  const std::string job =
      "JobId=77 JobName=x\n   JobState=TIMEOUT Reason=None\n   Requeue=1 Restarts=1 BatchFlag=1\n";
  EXPECT_EQ(state_from_scontrol(job, "77.1"), "TIMEOUT");
  EXPECT_EQ(state_from_scontrol(job, "77.0"), std::nullopt);  // that was another start
  EXPECT_EQ(state_from_scontrol(job, "7.1"), std::nullopt);
  for (const auto* state : {"TIMEOUT", "NODE_FAIL", "CANCELLED", "PREEMPTED"}) {
    EXPECT_TRUE(ended_from_outside(state)) << state;
  }
  for (const auto* state : {"FAILED", "OUT_OF_MEMORY", "COMPLETED", "REQUEUED", "RUNNING", ""}) {
    EXPECT_FALSE(ended_from_outside(state)) << state;
  }
}

class ResolveRestored : public testing::Test {
 protected:
  ResolveRestored() {
    set_log_sink({});
    ::unsetenv("SLURM_JOB_ID");
    disk_->create_directory("/run");
    disk_->create_directory("/run/.cairn");
  }
  // How many restores of step 30 count as vain after an end of this kind.
  std::int64_t count_after(End end, std::int64_t newest = 9) {
    RunHistory history;
    history.restored = {7, 30, 9, end, "-"};
    resolve_restored({disk_, "/run", "ckpt", true}, history, newest);
    EXPECT_FALSE(history.restored);
    heard_ = history.heard;
    return history.in_vain[7].count;
  }
  void note(const std::string& text) {
    io::replace_file(*disk_, "/run/.cairn/ended", text, "/run/.cairn/next");
  }
  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  std::string heard_;
};

TEST_F(ResolveRestored, WhatNobodyKnowsOfCounts) {
  EXPECT_EQ(count_after(End::open), 1);
  EXPECT_EQ(count_after(End::well), 0);
  EXPECT_EQ(count_after(End::stopped), 0);
  EXPECT_EQ(count_after(End::open, 10), 0) << "there is a newer commit";
}

TEST_F(ResolveRestored, ARecordOfCairnJobDecidesOnce) {
  note("cairn-job 1\nid one\nstatus 137\nsignals USR1\nlost-nodes 0\n");
  EXPECT_EQ(count_after(End::open), 0);
  EXPECT_EQ(heard_, "one");
  RunHistory again;
  again.heard = "one";
  again.restored = {7, 30, 9, End::open, "-"};
  resolve_restored({disk_, "/run", "ckpt", true}, again, 9);
  EXPECT_EQ(again.in_vain[7].count, 1) << "that record is of an earlier end";
  note("cairn-job 1\nid two\nstatus 1\nsignals \nlost-nodes 0\n");
  EXPECT_EQ(count_after(End::open), 1);
  EXPECT_EQ(count_after(End::well), 1) << "its manager ended, and the program failed";
  EXPECT_EQ(count_after(End::stopped), 0);
  note("nonsense");
  EXPECT_EQ(count_after(End::open), 1);
  disk_->inject({.code = Code::io, .kind = "", .path_part = "ended", .times = 1000});
  EXPECT_EQ(count_after(End::open), 1);
}

TEST(RestoredHistory, AStopIsNotForgottenWhenTheRunEnds) {
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  for (const auto* path : {"/run", "/run/.cairn"}) disk->create_directory(path);
  for (const bool stops : {true, false}) {
    RunRecorder runs({disk, "/run", "ckpt", true});
    runs.restored({7, 30, 9, {}, "-"});
    if (stops) runs.stopped();
    runs.end_well([] { return 2000.0; });
    const auto noted = RunRecorder({disk, "/run", "ckpt", true}).history();
    ASSERT_TRUE(noted.restored);
    EXPECT_EQ(noted.restored->end, stops ? End::stopped : End::well);
  }
}

// Wherever the power fails, either the old or the new history is found.
TEST(RestoredHistory, ACrashLeavesOneOfTheTwo) {
  set_log_sink({});
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/run");
  disk->create_directory("/run/.cairn");
  disk->sync_directory("/");
  disk->sync_directory("/run");
  const auto recorder = [](auto files) { return RunRecorder({files, "/run", "ckpt", true}); };
  const auto first = disk->operation_count();
  auto runs = recorder(disk);
  std::vector<RunHistory> states{runs.history()};
  runs.restored({7, 30, 9, {}, "-"});
  states.push_back(runs.history());
  const auto noted = disk->operation_count();
  runs.restored({7, 30, 9, {}, "-"});
  EXPECT_EQ(disk->operation_count(), noted) << "it is noted";
  runs.stopped();
  states.push_back(runs.history());
  runs.committed();
  states.push_back(runs.history());
  const auto last = disk->operation_count();
  runs.committed();
  runs.stopped();
  runs.end_well([] { return 2000.0; });
  EXPECT_EQ(disk->operation_count(), last) << "nothing is left to be noted";
  for (auto stop = first; stop <= last; ++stop) {
    for (const auto& choice : disk->crash_choices(stop)) {
      const auto found = recorder(disk->crash(stop, choice)).history();
      EXPECT_NE(std::find(states.begin(), states.end(), found), states.end())
          << disk->describe(stop, choice);
    }
  }
  const auto& choices = disk->crash_choices(noted);
  for (const auto& choice : choices) {
    EXPECT_EQ(recorder(disk->crash(noted, choice)).history(), states[1]) << "it is durable";
  }
}

}  // namespace
}  // namespace cairn
