// The parts of a turn, each alone: the job's end, the schedule, the slow-down, the runs, the vote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "cairn/optimal_interval.hpp"
#include "checkpoint/turn/job_end.hpp"
#include "checkpoint/turn/run_history.hpp"
#include "checkpoint/turn/save_schedule.hpp"
#include "checkpoint/turn/turns.hpp"
#include "io/memory.hpp"
#include "io/temporary_directory.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;
using testing::Optional;

constexpr double end = 1795356300;  // 2026-11-22 14:05:00 UTC

TEST(TurnJobEnd, ReadsWhatTheToolsPrint) {
  EXPECT_THAT(end_from_squeue("2026-11-22T14:05:00\n"), Optional(end));
  EXPECT_THAT(end_from_squeue("  2026-11-22T14:05:00  \n"), Optional(end));
  for (const auto* text : {"", "\n", "N/A\n", "NONE\n", "INVALID", "slurm_load_jobs error: no",
                           "2026-11-22T14:05:00 2026-11-22T14:05:00"}) {
    EXPECT_EQ(end_from_squeue(text), std::nullopt) << text;
  }
  EXPECT_THAT(end_from_scontrol("JobId=7 JobName=a\n   StartTime=2026-11-22T13:05:00 "
                                "EndTime=2026-11-22T14:05:00 Deadline=N/A\n"),
              Optional(end));
  EXPECT_THAT(end_from_scontrol("EndTime=2026-11-22T14:05:00"), Optional(end));
  for (const auto* text : {"", "JobId=7", "EndTime=Unknown Deadline=N/A",
                           "EndTime=", "PreviousEndTime=2026-11-22T14:05:00"}) {
    EXPECT_EQ(end_from_scontrol(text), std::nullopt) << text;
  }
}

// Tools of ours come first on PATH; the environment is as before after a test.
class TurnTools : public testing::Test {
 protected:
  TurnTools() {
    for (const char* name :
         {"PATH", "TZ", "SLURM_JOB_ID", "SLURM_JOB_END_TIME", "SLURM_TIME_FORMAT"}) {
      const char* value = getenv(name);
      before_.emplace_back(name, value ? std::optional<std::string>(value) : std::nullopt);
    }
    setenv("PATH", cat(directory_.path().string(), ":", getenv("PATH")).c_str(), 1);
    setenv("SLURM_JOB_ID", "17", 1);
    unsetenv("SLURM_JOB_END_TIME");
    set_log_sink({});
    tool("squeue", "exit 1");
    tool("scontrol", "exit 1");
  }
  ~TurnTools() override {
    for (const auto& [name, value] : before_) {
      if (value) setenv(name, value->c_str(), 1);
      if (!value) unsetenv(name);
    }
  }
  void tool(const std::string& name, const std::string& body) {
    const auto path = directory_.path() / name;
    std::ofstream(path) << "#!/bin/sh\n"
                        << "echo \"" << name << " $*\" >> '" << log().string() << "'\n"
                        << body << "\n";
    ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  }
  std::filesystem::path log() const { return directory_.path() / "log"; }
  std::string asked() const {
    std::ifstream in(log());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // As turns would, but waiting for the tools.
  static std::optional<double> answer(JobEnd& job_end, double now) {
    auto known = job_end.at(now);
    while (job_end.asking()) {
      job_end.wait(60);
      known = job_end.at(now);
    }
    return known;
  }
  // What Slurm's tools do with a time: as their TZ says.
  static std::string prints_end(const std::string& before = "", const std::string& after = "") {
    return cat("echo \"", before, "$(date -d @", static_cast<std::int64_t>(end),
               " +%Y-%m-%dT%H:%M:%S)", after, "\"");
  }

  test::TemporaryDirectory directory_;
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(TurnTools, TheEnvironmentIsEnough) {
  setenv("SLURM_JOB_END_TIME", "1795356300", 1);
  JobEnd job_end({.signals = {}});
  EXPECT_THAT(job_end.at(end - 100), Optional(end));
  EXPECT_FALSE(job_end.asking());
  EXPECT_EQ(asked(), "");
}

TEST_F(TurnTools, WhatTheApplicationSaysComesFirst) {
  setenv("SLURM_JOB_END_TIME", "1795356300", 1);
  JobEnd job_end({.signals = {}, .end_seconds = 42});
  EXPECT_THAT(job_end.at(0), Optional(42));
}

TEST_F(TurnTools, OutsideAJobNobodyIsAsked) {
  unsetenv("SLURM_JOB_ID");
  JobEnd none({.signals = {}});
  EXPECT_EQ(none.at(0), std::nullopt);
  setenv("SLURM_JOB_ID", "17; rm", 1);  // nothing that a job has for a number
  JobEnd odd({.signals = {}});
  EXPECT_EQ(odd.at(0), std::nullopt);
  setenv("SLURM_JOB_ID", "17", 1);
  JobEnd unwanted({.signals = {}, .time_limit = false});
  EXPECT_EQ(unwanted.at(0), std::nullopt);
  EXPECT_EQ(asked(), "");
}

TEST_F(TurnTools, SqueueTellsWhateverTheTimeZoneAndFormat) {
  tool("squeue", cat("[ \"$SLURM_TIME_FORMAT\" = standard ] && ", prints_end()));
  setenv("SLURM_TIME_FORMAT", "relative", 1);
  for (const char* zone : {"UTC", "America/New_York", "Asia/Kolkata", "EST5EDT,M3.2.0,M11.1.0"}) {
    setenv("TZ", zone, 1);
    JobEnd job_end({.signals = {}});
    EXPECT_THAT(answer(job_end, end - 100), Optional(end)) << zone;
  }
  EXPECT_THAT(asked(), testing::StartsWith("squeue -h -j 17 -o %e\nsqueue"));
}

TEST_F(TurnTools, ScontrolTellsWhereSqueueFailsOrTalksNonsense) {
  tool("scontrol", prints_end("JobId=17 StartTime=2026-11-20T00:00:00 EndTime=", " Deadline=N/A"));
  for (const std::string body :
       {"exit 1", "echo 2026-11-22T14:05:00; exit 1", "echo nonsense", "echo", "exit 0",
        "head -c 100000 /dev/zero", "echo 1970-01-01T00:00:00", "kill -9 $$"}) {
    tool("squeue", body);
    JobEnd job_end({.signals = {}});
    EXPECT_THAT(answer(job_end, end - 100), Optional(end)) << body;
  }
}

TEST_F(TurnTools, WithoutAnAnswerThereIsNoLimitAndTheyAreAskedAgainLater) {
  JobEnd job_end({.signals = {}, .reask_seconds = 600});
  EXPECT_EQ(answer(job_end, 1000), std::nullopt);
  const auto first = asked();
  EXPECT_EQ(first, "squeue -h -j 17 -o %e\nscontrol show job 17\n");
  EXPECT_EQ(answer(job_end, 1599), std::nullopt);
  EXPECT_EQ(asked(), first);
  EXPECT_EQ(answer(job_end, 1600), std::nullopt);
  EXPECT_EQ(asked(), first + first);
}

TEST_F(TurnTools, ALimitThatIsMovedIsNoticedAndKeptWhileNobodyAnswers) {
  tool("squeue", "echo 2026-11-22T14:05:00");
  JobEnd job_end({.signals = {}, .reask_seconds = 600});
  EXPECT_THAT(answer(job_end, end - 5000), Optional(end));
  tool("squeue", "echo 2026-11-22T15:05:00");
  EXPECT_THAT(answer(job_end, end - 4401), Optional(end));
  EXPECT_THAT(answer(job_end, end - 4400), Optional(end + 3600));
  tool("squeue", "exit 1");
  EXPECT_THAT(answer(job_end, end - 3800), Optional(end + 3600));
}

TEST_F(TurnTools, AToolThatHangsIsKilled) {
  tool("squeue", "sleep 1000");
  tool("scontrol", "sleep 1000");
  JobEnd job_end({.signals = {}, .reask_seconds = 600, .tool_seconds = 10});
  EXPECT_EQ(job_end.at(1000), std::nullopt);
  EXPECT_TRUE(job_end.asking());
  EXPECT_EQ(job_end.at(1010), std::nullopt);
  EXPECT_EQ(job_end.at(1011), std::nullopt);  // now it is scontrol's turn
  EXPECT_TRUE(job_end.asking());
  EXPECT_EQ(job_end.at(1022), std::nullopt);
  EXPECT_FALSE(job_end.asking());
  EXPECT_EQ(job_end.at(1621), std::nullopt);
  EXPECT_FALSE(job_end.asking());
  job_end.at(1622);
  EXPECT_TRUE(job_end.asking());  // and is ended with job_end
}

SaveStatistics took(double blocked, double write, bool asynchronous) {
  SaveStatistics save;
  save.asynchronous = asynchronous;
  save.blocked_seconds = blocked;
  save.seconds.write = write;
  save.seconds.wait = 1000;
  save.seconds.tidy = 1000;
  return save;
}

TEST(TurnSchedule, CostIsTheMeanOfTheLastAndTheLongestOfThem) {
  EXPECT_FALSE(cost_of({}));
  EXPECT_DOUBLE_EQ(cost_of({took(2, 1, false)})->blocked, 2);
  EXPECT_DOUBLE_EQ(cost_of({took(2, 1, false)})->durable, 2);
  std::vector<SaveStatistics> many(12, took(1, 5, true));
  many.front() = took(100, 100, false);  // too long ago
  many.back() = took(9, 7, true);
  EXPECT_DOUBLE_EQ(cost_of(many)->blocked, 2);
  EXPECT_DOUBLE_EQ(cost_of(many)->durable, 9);
}

TEST(TurnSchedule, EverySoManySeconds) {
  SaveSchedule schedule(every_seconds(10), 1);
  EXPECT_FALSE(schedule.due(100, std::nullopt, 0));  // the count begins with the first question
  EXPECT_FALSE(schedule.due(109.9, std::nullopt, 0));
  EXPECT_TRUE(schedule.due(110, std::nullopt, 0));
  EXPECT_TRUE(schedule.due(111, std::nullopt, 0));
  schedule.saved(113);
  EXPECT_FALSE(schedule.due(122, std::nullopt, 0));
  EXPECT_TRUE(schedule.due(123, std::nullopt, 0));
  SaveSchedule never({}, 1);
  EXPECT_FALSE(never.due(0, std::nullopt, 0));
  EXPECT_FALSE(never.due(1e12, std::nullopt, 0));
  EXPECT_FALSE(SaveSchedule(every_steps(3), 1).by_clock());
}

TEST(TurnSchedule, OptimalByMeasuredCost) {
  const SaveSchedule schedule(optimal(3600), 3600);
  EXPECT_DOUBLE_EQ(schedule.seconds(std::nullopt, 0), optimal_interval(1, 3600));
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{60, 60}, 0), optimal_interval(60, 3600));
  // What slows the application counts; what goes on beside it does not, but saves do not overlap.
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{2, 100}, 8), optimal_interval(10, 3600));
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{0.1, 100}, 0), 100);
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{0, 0}, 0), 0);
  // A save of more than the mean time between failures: as seldom as it is long.
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{7200, 7200}, 0), 7200);
  const SaveSchedule both({.seconds = 50, .optimal_for = Mtbf::job(3600)}, 3600);
  EXPECT_DOUBLE_EQ(both.seconds(SaveCost{60, 60}, 0), 50);
}

TEST(TurnSlowDown, IsWhatStepsTakeLongerWhileASaveIsInFlight) {
  SlowDown slow;
  EXPECT_EQ(slow.seconds_a_save(), 0);
  for (int save = 0; save < 5; ++save) {
    for (int i = 0; i < 20; ++i) slow.step(1, false);
    for (int i = 0; i < 4; ++i) slow.step(1.5, true);
    slow.save_ended();
    EXPECT_NEAR(slow.seconds_a_save(), 2, 1e-9) << save;
  }
  for (int save = 0; save < 40; ++save) {  // later ones count
    for (int i = 0; i < 20; ++i) slow.step(1, false);
    for (int i = 0; i < 4; ++i) slow.step(1.25, true);
    slow.save_ended();
  }
  EXPECT_NEAR(slow.seconds_a_save(), 1, 1e-3);
  SlowDown faster;  // noise is no gain
  faster.step(2, false);
  faster.step(1, true);
  faster.save_ended();
  EXPECT_EQ(faster.seconds_a_save(), 0);
}

using OneRun = RunHistory::Run;

TEST(TurnRuns, LearnFromHowRunsEnd) {
  RunHistory history;
  EXPECT_DOUBLE_EQ(history.mtbf(1000), 1000);
  history.begin(10'000, 0);
  history.end_well(10'500);
  history.end_well(99'999);  // only once
  EXPECT_DOUBLE_EQ(history.mtbf(1000), 1500);
  history.begin(20'000, 10'400);
  history.begin(30'000, 21'000);  // the one before has failed, after its last checkpoint
  EXPECT_DOUBLE_EQ(history.mtbf(1000), 2500.0 / 2);
  history.begin(40'000, 21'000);  // this one before it had any
  EXPECT_DOUBLE_EQ(history.mtbf(1000), 2500.0 / 3);
  EXPECT_THAT(history.runs, testing::ElementsAre(OneRun{10'000, 500, OneRun::End::well},
                                                 OneRun{20'000, 1000, OneRun::End::failed},
                                                 OneRun{30'000, 0, OneRun::End::failed},
                                                 OneRun{40'000, 0, OneRun::End::open}));
}

TEST(TurnRuns, OldOnesAreAddedUpAndTheFileStaysSmall) {
  RunHistory history;
  for (int i = 0; i < 1000; ++i) {
    history.begin(1.7e9 + i * 1000.0, 0);
    if (i % 4 != 0) history.end_well(1.7e9 + i * 1000.0 + 100);
  }
  EXPECT_EQ(history.runs.size(), RunHistory::most_runs);
  EXPECT_NEAR(history.mtbf(0), 750 * 100 / 251.0, 1);
  EXPECT_LT(history.print().size(), 8192U);
  EXPECT_EQ(RunHistory::parse(history.print()), history);
}

TEST(TurnRuns, DamageIsNoticed) {
  RunHistory history;
  history.begin(1'000, 0);
  history.end_well(1'100);
  history.begin(2'000, 0);
  const auto text = history.print();
  EXPECT_EQ(RunHistory::parse(text), history);
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto changed = text;
    changed[i] ^= 1;
    EXPECT_EQ(RunHistory::parse(changed), std::nullopt) << i;
    EXPECT_EQ(RunHistory::parse(text.substr(0, i)), std::nullopt) << i;
  }
  EXPECT_EQ(RunHistory::parse(text + "x"), std::nullopt);
}

// Wherever the power fails, the history before or after is found.
TEST(TurnRuns, ACrashLeavesOneOfTheTwo) {
  set_log_sink({});
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/run");
  disk->create_directory("/run/.cairn");
  disk->sync_directory("/");
  disk->sync_directory("/run");
  const auto recorder = [](auto files) { return RunRecorder(files, "/run", "ckpt", true); };
  recorder(disk).begin(1000, 0);
  const auto first = disk->operation_count();
  const auto before = recorder(disk).history();
  auto runs = recorder(disk);
  runs.begin(2000, 1600);
  const auto after = runs.history();
  int disks = 0, kept = 0;
  for (auto stop = first; stop <= disk->operation_count(); ++stop) {
    for (const auto& choice : disk->crash_choices(stop)) {
      const auto found = recorder(disk->crash(stop, choice)).history();
      ASSERT_TRUE(found == before || found == after) << disk->describe(stop, choice);
      ++disks;
      kept += found == after;
    }
  }
  EXPECT_GT(disks, 10);
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, disks);
}

TEST(TurnRuns, DebrisAndDamageDoNotStopTheNextRun) {
  set_log_sink({});
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/run");
  disk->create_directory("/run/.cairn");
  for (const bool atomic_rename : {true, false}) {
    const auto recorder = [&] { return RunRecorder(disk, "/run", "ckpt", atomic_rename); };
    io::write_file(*disk, "/run/.cairn/new-runs.ckpt", "half");
    {
      auto runs = recorder();
      runs.begin(1000, 0);
      runs.end_well(1600);
    }
    EXPECT_DOUBLE_EQ(recorder().history().mtbf(100), 700);
    io::remove_if_there(*disk, "/run/.cairn/new-runs.ckpt");
    disk->remove("/run/.cairn/runs.ckpt");
    io::write_file(*disk, "/run/.cairn/runs.ckpt", "nonsense");
    EXPECT_DOUBLE_EQ(recorder().history().mtbf(100), 100);
    disk->remove("/run/.cairn/runs.ckpt");
  }
  // A disk that refuses is no reason to fail.
  disk->inject({.code = Code::io, .kind = "", .path_part = "runs.ckpt", .times = 1000});
  auto runs = RunRecorder(disk, "/run", "ckpt", true);
  EXPECT_NO_THROW(runs.begin(1000, 0));
  EXPECT_NO_THROW(runs.end_well(1001));
}

TEST(TurnVote, SaysWhatItWasMadeOf) {
  Vote vote;
  for (const int rank : {0, 1, 77, 5'000'000}) {
    vote.values[Vote::stop] = Vote::stop_code(StopKind::signal, rank, SIGUSR1);
    EXPECT_EQ(vote.reason().kind, StopKind::signal);
    EXPECT_EQ(vote.reason().rank, rank);
    EXPECT_EQ(vote.reason().signal, SIGUSR1);
  }
  // Lower ranks, and what somebody wanted, count more.
  EXPECT_GT(Vote::stop_code(StopKind::signal, 1, 0), Vote::stop_code(StopKind::signal, 2, 60));
  EXPECT_GT(Vote::stop_code(StopKind::application, 9, 0), Vote::stop_code(StopKind::file, 0, 0));
  EXPECT_GT(Vote::stop_code(StopKind::file, 9, 0), Vote::stop_code(StopKind::signal, 0, 60));
  EXPECT_GT(Vote::stop_code(StopKind::signal, 9, 0), Vote::stop_code(StopKind::time_limit, 0, 0));
}

}  // namespace
}  // namespace cairn
