// Tests each part of a round alone: the job's end, the schedule, the slow-down, the runs, the vote.
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
#include "io/temporary_directory.hpp"
#include "session/schedule/job_end.hpp"
#include "session/schedule/question_rounds.hpp"
#include "session/schedule/run_history.hpp"
#include "session/schedule/save_schedule.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"

namespace cairn {
namespace {

using testing::Optional;

constexpr double end = 1795356300;  // 2026-11-22 14:05:00 UTC

TEST(RoundJobEnd, ReadsWhatTheToolsPrint) {
  EXPECT_THAT(end_from_squeue("7 2026-11-22T14:05:00\n", "7"), Optional(end));
  EXPECT_THAT(end_from_squeue("  7  2026-11-22T14:05:00  \n", "7"), Optional(end));
  for (const auto* text :
       {"", "\n", "7", "7 N/A\n", "7 NONE\n", "7 INVALID", "slurm_load_jobs error: no",
        "2026-11-22T14:05:00", "8 2026-11-22T14:05:00", "77 2026-11-22T14:05:00",
        "7 2026-11-22T14:05:00 2026-11-22T14:05:00"}) {
    EXPECT_EQ(end_from_squeue(text, "7"), std::nullopt) << text;
  }
  EXPECT_THAT(end_from_scontrol("JobId=7 JobName=a\n   StartTime=2026-11-22T13:05:00 "
                                "EndTime=2026-11-22T14:05:00 Deadline=N/A\n",
                                "7"),
              Optional(end));
  EXPECT_THAT(end_from_scontrol("JobId=7 A=b\nEndTime=2026-11-22T14:05:00", "7"), Optional(end));
  for (const auto* text :
       {"", "JobId=7", "JobId=7 EndTime=Unknown Deadline=N/A",
        "JobId=7 EndTime=", "EndTime=2026-11-22T14:05:00", "JobId=77 EndTime=2026-11-22T14:05:00",
        "JobId=7 PreviousEndTime=2026-11-22T14:05:00"}) {
    EXPECT_EQ(end_from_scontrol(text, "7"), std::nullopt) << text;
  }
}

// The last task of an array has the number of the array, under which the tools list all tasks.
TEST(RoundJobEnd, OfTheTasksOfAnArrayOurs) {
  const auto squeue = "5 2026-11-22T12:05:00\n6 2026-11-22T13:05:00\n7 2026-11-22T14:05:00\n";
  EXPECT_THAT(end_from_squeue(squeue, "7"), Optional(end));
  EXPECT_THAT(end_from_squeue(squeue, "5"), Optional(end - 7200));
  const auto record = [](int job, const char* time) {
    return cat("JobId=", job, " ArrayJobId=7 ArrayTaskId=", job,
               " JobName=a\n   StartTime=2026-11-20T00:00:00 EndTime=2026-11-22T", time,
               " Deadline=N/A\n\n");
  };
  const auto scontrol = record(5, "12:05:00") + record(7, "14:05:00") + record(6, "13:05:00");
  EXPECT_THAT(end_from_scontrol(scontrol, "7"), Optional(end));
  EXPECT_THAT(end_from_scontrol(scontrol, "6"), Optional(end - 3600));
}

// Puts scripts in place of Slurm's tools first on PATH; restores the environment after a test.
class RoundTools : public testing::Test {
 protected:
  RoundTools() {
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
  ~RoundTools() override {
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
  // Asks as rounds would, but waits for the tools.
  static std::optional<double> answer(JobEnd& job_end, double wall, double steady) {
    auto known = job_end.at(wall, steady);
    while (job_end.asking()) {
      job_end.wait(60);
      known = job_end.at(wall, steady);
    }
    return known;
  }
  static std::optional<double> answer(JobEnd& job_end, double now) {
    return answer(job_end, now, now);
  }
  // Slurm's tools print a time in the zone of their TZ.
  static std::string prints_end(const std::string& before = "17 ", const std::string& after = "") {
    return cat("echo \"", before, "$(date -d @", static_cast<std::int64_t>(end),
               " +%Y-%m-%dT%H:%M:%S)", after, "\"");
  }

  test::TemporaryDirectory directory_;
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(RoundTools, TheEnvironmentIsEnough) {
  setenv("SLURM_JOB_END_TIME", "1795356300", 1);
  JobEnd job_end({.signals = {}});
  EXPECT_THAT(job_end.at(end - 100, end - 100), Optional(end));
  EXPECT_FALSE(job_end.asking());
  EXPECT_EQ(asked(), "");
}

TEST_F(RoundTools, WhatTheApplicationSaysComesFirst) {
  setenv("SLURM_JOB_END_TIME", "1795356300", 1);
  JobEnd job_end({.signals = {}, .end_seconds = 42}, 0);
  EXPECT_THAT(job_end.at(0, 0), Optional(42));
}

TEST_F(RoundTools, OutsideAJobNobodyIsAsked) {
  unsetenv("SLURM_JOB_ID");
  JobEnd none({.signals = {}});
  EXPECT_EQ(none.at(0, 0), std::nullopt);
  setenv("SLURM_JOB_ID", "17; rm", 1);  // nothing that a job has for a number
  JobEnd odd({.signals = {}});
  EXPECT_EQ(odd.at(0, 0), std::nullopt);
  setenv("SLURM_JOB_ID", "17", 1);
  JobEnd unwanted({.signals = {}, .time_limit = false});
  EXPECT_EQ(unwanted.at(0, 0), std::nullopt);
  EXPECT_EQ(asked(), "");
}

TEST_F(RoundTools, SqueueTellsWhateverTheTimeZoneAndFormat) {
  tool("squeue", cat("[ \"$SLURM_TIME_FORMAT\" = standard ] && ", prints_end()));
  setenv("SLURM_TIME_FORMAT", "relative", 1);
  for (const char* zone : {"UTC", "America/New_York", "Asia/Kolkata", "EST5EDT,M3.2.0,M11.1.0"}) {
    setenv("TZ", zone, 1);
    JobEnd job_end({.signals = {}});
    EXPECT_THAT(answer(job_end, end - 100), Optional(end)) << zone;
  }
  EXPECT_THAT(asked(), testing::StartsWith("squeue -h -r -j 17 -o %A %e\nsqueue"));
}

TEST_F(RoundTools, ScontrolTellsWhereSqueueFailsOrTalksNonsense) {
  tool("scontrol", prints_end("JobId=17 StartTime=2026-11-20T00:00:00 EndTime=", " Deadline=N/A"));
  for (const std::string body :
       {"exit 1", "echo 17 2026-11-22T14:05:00; exit 1", "echo nonsense", "echo", "exit 0",
        "head -c 100000 /dev/zero", "echo 17 1970-01-01T00:00:00", "kill -9 $$"}) {
    tool("squeue", body);
    JobEnd job_end({.signals = {}}, end - 200);
    EXPECT_THAT(answer(job_end, end - 100), Optional(end)) << body;
  }
}

// For instance by a clock that is a day ahead.
TEST_F(RoundTools, ALimitThatWasOverWhenTheJobBeganIsNone) {
  std::vector<std::string> told;
  set_log_sink([&](LogLevel, std::string_view text) { told.emplace_back(text); });
  const auto said = test::Says(" it was over 86222 s before the job began");
  const double now = end + 86222;
  tool("squeue", "echo 17 2026-11-22T14:05:00");
  tool("scontrol", "echo JobId=17 EndTime=2026-11-22T14:05:00");
  for (const std::string source : {"option", "environment", "tools"}) {
    SCOPED_TRACE(source);
    told.clear();
    StopOptions options{.signals = {}, .reask_seconds = 600};
    if (source == "option") options.end_seconds = end;
    if (source == "environment") setenv("SLURM_JOB_END_TIME", "1795356300", 1);
    JobEnd job_end(options, now);
    unsetenv("SLURM_JOB_END_TIME");
    EXPECT_EQ(answer(job_end, now), std::nullopt);
    EXPECT_EQ(answer(job_end, now + 600), std::nullopt);
    EXPECT_THAT(told, testing::ElementsAre(said));
    EXPECT_THAT(answer(job_end, end - 100, now + 1200), Optional(end)) << "the clock is set";
  }
  told.clear();
  JobEnd later({.signals = {}}, end - 1), unknown({.signals = {}});
  EXPECT_THAT(answer(later, end + 50), Optional(end));
  EXPECT_THAT(answer(unknown, end + 50), Optional(end));
  EXPECT_TRUE(told.empty());
  set_log_sink({});
}

TEST_F(RoundTools, WithoutAnAnswerThereIsNoLimitAndTheyAreAskedAgainLater) {
  JobEnd job_end({.signals = {}, .reask_seconds = 600});
  EXPECT_EQ(answer(job_end, 1000), std::nullopt);
  const auto first = asked();
  EXPECT_EQ(first, "squeue -h -r -j 17 -o %A %e\nscontrol show job 17\n");
  EXPECT_EQ(answer(job_end, 1599), std::nullopt);
  EXPECT_EQ(asked(), first);
  EXPECT_EQ(answer(job_end, 1600), std::nullopt);
  EXPECT_EQ(asked(), first + first);
}

TEST_F(RoundTools, ALimitThatIsMovedIsNoticedAndKeptWhileNobodyAnswers) {
  tool("squeue", "echo 17 2026-11-22T14:05:00");
  JobEnd job_end({.signals = {}, .reask_seconds = 600});
  EXPECT_THAT(answer(job_end, end - 5000), Optional(end));
  tool("squeue", "echo 17 2026-11-22T15:05:00");
  EXPECT_THAT(answer(job_end, end - 4401), Optional(end));
  EXPECT_THAT(answer(job_end, end - 4400), Optional(end + 3600));
  tool("squeue", "exit 1");
  EXPECT_THAT(answer(job_end, end - 3800), Optional(end + 3600));
}

// A jump of the wall clock counts neither as waiting time nor as time that has passed.
TEST_F(RoundTools, TheWallClockMayJump) {
  tool("squeue", "sleep 1000");
  JobEnd job_end({.signals = {}, .reask_seconds = 600, .tool_seconds = 10});
  job_end.at(end - 5000, 100);
  job_end.at(end - 1000, 101);  // a jump forward
  EXPECT_EQ(asked().find("scontrol"), std::string::npos);
  tool("scontrol", prints_end("JobId=17 EndTime="));
  job_end.at(end - 9000, 111);
  while (job_end.asking()) job_end.wait(60), job_end.at(end - 9000, 111);
  EXPECT_THAT(job_end.at(end - 9000, 710), Optional(end));
  EXPECT_FALSE(job_end.asking());
  job_end.at(end - 9000, 711);
  EXPECT_TRUE(job_end.asking());
}

TEST_F(RoundTools, AToolThatHangsIsKilled) {
  tool("squeue", "sleep 1000");
  tool("scontrol", "sleep 1000");
  JobEnd job_end({.signals = {}, .reask_seconds = 600, .tool_seconds = 10});
  EXPECT_EQ(job_end.at(1000, 1000), std::nullopt);
  EXPECT_TRUE(job_end.asking());
  EXPECT_EQ(job_end.at(1010, 1010), std::nullopt);
  EXPECT_EQ(job_end.at(1011, 1011), std::nullopt);  // now it is scontrol's round
  EXPECT_TRUE(job_end.asking());
  EXPECT_EQ(job_end.at(1022, 1022), std::nullopt);
  EXPECT_FALSE(job_end.asking());
  EXPECT_EQ(job_end.at(1621, 1621), std::nullopt);
  EXPECT_FALSE(job_end.asking());
  job_end.at(1622, 1622);
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

TEST(RoundSchedule, CostIsTheMeanOfTheLastAndTheLongestOfThem) {
  EXPECT_FALSE(cost_of({}));
  EXPECT_DOUBLE_EQ(cost_of({took(2, 1, false)})->blocked, 2);
  EXPECT_DOUBLE_EQ(cost_of({took(2, 1, false)})->durable, 2);
  std::vector<SaveStatistics> many(12, took(1, 5, true));
  many.front() = took(100, 100, false);  // too long ago
  many.back() = took(9, 7, true);
  EXPECT_DOUBLE_EQ(cost_of(many)->blocked, 2);
  EXPECT_DOUBLE_EQ(cost_of(many)->durable, 9);
}

TEST(RoundSchedule, EverySoManySeconds) {
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

TEST(RoundSchedule, OptimalByMeasuredCost) {
  const SaveSchedule schedule(optimal(3600), 3600);
  EXPECT_DOUBLE_EQ(schedule.seconds(std::nullopt, 0), optimal_interval(1, 3600));
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{60, 60}, 0), optimal_interval(60, 3600));
  // Only time that slows the application counts; time beside it does not, but saves do not overlap.
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{2, 100}, 8), optimal_interval(10, 3600));
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{0.1, 100}, 0), 100);
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{0, 0}, 0), 0);
  // If a save takes longer than the mean time between failures, the interval is its duration.
  EXPECT_DOUBLE_EQ(schedule.seconds(SaveCost{7200, 7200}, 0), 7200);
  const SaveSchedule both({.seconds = 50, .optimal_for = Mtbf::job(3600)}, 3600);
  EXPECT_DOUBLE_EQ(both.seconds(SaveCost{60, 60}, 0), 50);
}

// The steps of a job in order: a save begins, steps are slower, the save ends.
TEST(RoundSlowDown, IsWhatStepsTakeLongerWhileASaveIsPending) {
  SlowDown slow;
  EXPECT_EQ(slow.seconds_a_save(), 0);
  const auto save = [&](double busy) {
    slow.save_begins();
    for (int i = 0; i < 4; ++i) slow.step(busy, true);
    for (int i = 0; i < 20; ++i) slow.step(1, false);
  };
  for (int i = 0; i < 20; ++i) slow.step(1, false);
  for (int i = 0; i < 5; ++i) {
    save(1.5);
    EXPECT_NEAR(slow.seconds_a_save(), 2, 1e-9) << i;
  }
  for (int i = 0; i < 40; ++i) save(1.25);  // later ones count
  EXPECT_NEAR(slow.seconds_a_save(), 1, 1e-3);
  SlowDown faster;  // noise is no gain
  faster.step(2, false);
  faster.save_begins();
  faster.step(1, true);
  EXPECT_EQ(faster.seconds_a_save(), 0);
}

using OneRun = RunHistory::JobRun;

TEST(RoundRuns, LearnFromHowRunsEnd) {
  RunHistory history;
  EXPECT_DOUBLE_EQ(history.mtbf(1000), 1000);
  history.begin(10'000, 0);
  history.end_well(10'500);
  history.end_well(99'999);  // only once
  EXPECT_DOUBLE_EQ(history.mtbf(1000), 1500);
  history.begin(20'000, 10'400);
  history.begin(30'000, 21'000);  // the one before has failed, after its last checkpoint
  EXPECT_DOUBLE_EQ(history.mtbf(1000), 2500.0 / 2);
  history.begin(40'000, 21'000);  // this one before it had any: it tells nothing
  EXPECT_DOUBLE_EQ(history.mtbf(1000), 2500.0 / 2);
  EXPECT_THAT(history.runs, testing::ElementsAre(OneRun{10'000, 500, OneRun::End::well},
                                                 OneRun{20'000, 1000, OneRun::End::failed},
                                                 OneRun{30'000, 0, OneRun::End::failed},
                                                 OneRun{40'000, 0, OneRun::End::open}));
}

TEST(RoundRuns, OldOnesAreAddedUpAndTheFileStaysSmall) {
  RunHistory history;
  for (int i = 0; i < 1000; ++i) {
    // Runs that failed had saved after 100 s, or, every other time, never.
    history.begin(1.7e9 + i * 1000.0, i % 8 == 1 ? 1.7e9 + i * 1000.0 - 900 : 0);
    if (i % 4 != 0) history.end_well(1.7e9 + i * 1000.0 + 100);
  }
  EXPECT_EQ(history.runs.size(), RunHistory::most_runs);
  EXPECT_NEAR(history.mtbf(0), 875 * 100 / 126.0, 1e-6);
  EXPECT_LT(history.print().size(), 8192U);
  EXPECT_EQ(RunHistory::parse(history.print()), history);
}

TEST(RoundRuns, DamageIsNoticed) {
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

// Wherever the power fails, either the old or the new history is found.
TEST(RoundRuns, ACrashLeavesOneOfTheTwo) {
  set_log_sink({});
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/run");
  disk->create_directory("/run/.cairn");
  disk->sync_directory("/");
  disk->sync_directory("/run");
  const auto recorder = [](auto files) { return RunRecorder({files, "/run", "ckpt", true}); };
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

TEST(RoundRuns, DebrisAndDamageDoNotStopTheNextRun) {
  set_log_sink({});
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/run");
  disk->create_directory("/run/.cairn");
  for (const bool atomic_rename : {true, false}) {
    const auto recorder = [&] { return RunRecorder({disk, "/run", "ckpt", atomic_rename}); };
    io::write_file(*disk, "/run/.cairn/new-runs.ckpt", "half");
    {
      auto runs = recorder();
      runs.begin(1000, 0);
      runs.end_well([] { return 1600.0; });
    }
    EXPECT_DOUBLE_EQ(recorder().history().mtbf(100), 700);
    io::remove_if_there(*disk, "/run/.cairn/new-runs.ckpt");
    disk->remove("/run/.cairn/runs.ckpt");
    io::write_file(*disk, "/run/.cairn/runs.ckpt", "nonsense");
    EXPECT_DOUBLE_EQ(recorder().history().mtbf(100), 100);
    disk->remove("/run/.cairn/runs.ckpt");
  }
  // A disk that refuses the history causes no error.
  disk->inject({.code = Code::io, .kind = "", .path_part = "runs.ckpt", .times = 1000});
  auto runs = RunRecorder({disk, "/run", "ckpt", true});
  EXPECT_NO_THROW(runs.begin(1000, 0));
  EXPECT_NO_THROW(runs.end_well([] { return 1001.0; }));
}

// Another process owns the directory, and has its own line in the file.
TEST(RoundRuns, WhoLostTheDirectoryWritesNothing) {
  std::string told;
  set_log_sink([&](LogLevel, std::string_view text) { told += text; });
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/run");
  disk->create_directory("/run/.cairn");
  bool ours = true;
  RunRecorder first({disk, "/run", "ckpt", true}, [&] {
    if (!ours) throw Error(Code::busy, "taken over");
  });
  first.begin(1000, 0);
  ours = false;
  RunRecorder second({disk, "/run", "ckpt", true});
  second.begin(2000, 1500);
  first.end_well([] { return 3000.0; });
  EXPECT_THAT(told, test::Says("that a run ends is not recorded: taken over"));
  EXPECT_EQ(RunRecorder({disk, "/run", "ckpt", true}).history(), second.history());
  // A clock that throws in a destructor does not end the program.
  EXPECT_NO_THROW(second.end_well([]() -> double { throw std::runtime_error("no clock"); }));
  set_log_sink({});
}

// An earlier save may have to end before the last one.
TEST(RoundTimeLimit, LeavesRoomForTwoSaves) {
  double time = 1e9;
  ManagerOptions options;
  options.when.stop = std::make_shared<StopRequest>(
      StopOptions{.signals = {}, .end_seconds = 1e9 + 1000, .margin_seconds = 50});
  options.when.clock = [&] { return time; };
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/run");
  const Job job{{disk, "/run", "ckpt"}, serial_group(), options};
  QuestionRounds rounds(job, {}, nullptr);
  SaveStatistics save;
  save.blocked_seconds = 100;
  rounds.learn(1, {save});
  int step = 0;
  while (!rounds.stop() && step < 200) {
    time += 10;
    ++step;
    rounds.hear(false);
    rounds.ask(false, false);
  }
  // 2 saves, 2 steps and 50 s need time: at 730 it is too late; the answer comes one step later.
  ASSERT_TRUE(rounds.stop());
  EXPECT_EQ(step, 74);
  EXPECT_EQ(rounds.stop()->left_seconds, 270);
  EXPECT_EQ(rounds.stop()->save_seconds, 100);
}

TEST(RoundVote, SaysWhatItWasMadeOf) {
  Vote vote;
  for (const int rank : {0, 1, 77, 5'000'000}) {
    const auto reason = vote.reason(Vote::stop_code(StopKind::signal, rank, SIGUSR1));
    EXPECT_EQ(reason.kind, StopKind::signal);
    EXPECT_EQ(reason.rank, rank);
    EXPECT_EQ(reason.signal, SIGUSR1);
  }
  // Lower ranks, and reasons that somebody asked for, take precedence.
  EXPECT_GT(Vote::stop_code(StopKind::signal, 1, 0), Vote::stop_code(StopKind::signal, 2, 60));
  EXPECT_GT(Vote::stop_code(StopKind::application, 9, 0), Vote::stop_code(StopKind::file, 0, 0));
  EXPECT_GT(Vote::stop_code(StopKind::file, 9, 0), Vote::stop_code(StopKind::signal, 0, 60));
  EXPECT_GT(Vote::stop_code(StopKind::signal, 9, 0), Vote::stop_code(StopKind::time_limit, 0, 0));
}

}  // namespace
}  // namespace cairn
