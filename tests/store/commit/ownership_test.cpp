#include "store/commit/ownership.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "io/temporary_directory.hpp"
#include "store/commit/names.hpp"
#include "store/commit/owner_kit.hpp"
#include "support/no_threads.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"

namespace cairn::commit {
namespace {

using ::testing::ElementsAre;

class OwnershipOn : public ::testing::TestWithParam<const char*> {
 protected:
  OwnershipOn() {
    if (std::string(GetParam()) == "posix") {
      files = io::posix_file_system();
      directory = temporary.path() / "run";
    } else {
      files = std::make_shared<io::MemoryFileSystem>();
      directory = "/run";
    }
  }
  Ownership take() { return Ownership::take(files, directory, 0); }

  test::TemporaryDirectory temporary;
  std::shared_ptr<io::FileSystem> files;
  io::Path directory;
};

INSTANTIATE_TEST_SUITE_P(All, OwnershipOn, ::testing::Values("posix", "memory"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OwnershipOn, TakenHeldAndGivenUp) {
  {
    const auto owner = take();
    owner.check();
    EXPECT_THAT(private_files(*files, directory), ElementsAre("lock", "owner"));
    const auto record = read_owner(*files, directory);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->token, owner.record().token);
    EXPECT_EQ(record->pid, ::getpid());
    EXPECT_FALSE(record->by_heartbeat);
    // An owner in this process that the library does not know belongs to another copy of it.
    EXPECT_CAIRN_ERROR(take(), Code::busy,
                       cat("the checkpoint directory is in use by this very process: ",
                           directory.string(), " (another copy of the library in it is the owner, ",
                           "process ", ::getpid(), " on host ", record->host));
    EXPECT_CAIRN_ERROR(take(), Code::busy, "link both to one libcairn.so");
    owner.check();
  }
  EXPECT_THAT(private_files(*files, directory), ElementsAre("lock"));
  EXPECT_FALSE(read_owner(*files, directory));
  take().check();
}

TEST_P(OwnershipOn, WithoutAThreadForItsHeartNobodyIsTheOwner) {
  {
    const test::NoThreads none;
    EXPECT_CAIRN_ERROR(take(), Code::io, "cannot start a thread");
  }
  EXPECT_FALSE(read_owner(*files, directory));
  take().check();
}

TEST_P(OwnershipOn, MovesWithItsObject) {
  auto first = take();
  auto second = std::move(first);
  second.check();
  first = std::move(second);
  first.check();
  EXPECT_CAIRN_ERROR(take(), Code::busy, "in use");
}

TEST_P(OwnershipOn, DeadOwnersLeftoversAreReused) {
  io::create_directories(*files, directory / ".cairn");
  auto dead = stranger();
  dead.host = take().record().host;  // on another host, the lock would prove nothing
  dead.kernel = "";
  files->remove(directory / ".cairn/lock");
  io::write_file(*files, directory / ".cairn/owner", print_owner(dead));
  io::write_file(*files, directory / ".cairn/lock", "");
  io::write_file(*files, directory / ".cairn/owner.tmp-0123456789abcdef0123456789abcdef", "half");
  io::write_file(*files, directory / ".cairn/notes", "not ours");
  io::write_file(*files, directory / ".cairn/new-runs.ckpt", "half");
  for (const char* below : {".cairn/pinned", ".cairn/damaged"}) {
    io::create_directories(*files, directory / below);
    io::write_file(*files, directory / below / "owner.tmp-0123456789abcdef0123456789abcdef",
                   "half");
    io::write_file(*files, directory / below / "ckpt-1", "a mark");
  }
  const auto owner = take();
  EXPECT_EQ(read_owner(*files, directory)->token, owner.record().token);
  EXPECT_THAT(private_files(*files, directory), ElementsAre("damaged", "lock", "notes", "owner"));
  EXPECT_THAT(files->list(directory / ".cairn/pinned"), ElementsAre("ckpt-1"));
  EXPECT_THAT(files->list(directory / ".cairn/damaged"), ElementsAre("ckpt-1"));
}

TEST_P(OwnershipOn, UnreadableRecordDoesNotStopTheNextOwner) {
  io::create_directories(*files, directory / ".cairn");
  io::write_file(*files, directory / ".cairn/owner", std::string(100000, '\xff'));
  EXPECT_FALSE(read_owner(*files, directory));
  take().check();
}

TEST_P(OwnershipOn, CheckTellsWhoTookOver) {
  const auto owner = take();
  io::replace_file(*files, directory / ".cairn/owner", print_owner(stranger()));
  EXPECT_CAIRN_ERROR(
      owner.check(), Code::busy,
      cat("the checkpoint directory is no longer owned by this job: ", directory.string(),
          " (its owner is process 4242 on host elsewhere, job 77, since 2025-11-05 "
          "10:00:00 UTC). This job commits and removes nothing here any more;"));
  files->remove(directory / ".cairn/owner");
  EXPECT_CAIRN_ERROR(owner.check(), Code::busy, "(the owner record is gone)");
}

TEST_P(OwnershipOn, TheEndLeavesAnothersRecordAlone) {
  const auto other = stranger();
  {
    const auto owner = take();
    io::replace_file(*files, directory / ".cairn/owner", print_owner(other));
  }
  EXPECT_EQ(read_owner(*files, directory)->token, other.token);
}

TEST_P(OwnershipOn, AFileInTheWay) {
  io::create_directories(*files, directory.parent_path());
  io::write_file(*files, directory, "");
  EXPECT_CAIRN_ERROR(take(), Code::io, "Not a directory");
}

TEST_P(OwnershipOn, NamesOfOneProcessShareADirectory) {
  std::optional<OwnedName> steps = OwnedName::take(files, directory, "ckpt", 0);
  const auto record = read_owner(*files, directory);
  std::optional<OwnedName> exports = OwnedName::take(files, directory, "export", 0);
  EXPECT_EQ(read_owner(*files, directory)->token, record->token);
  EXPECT_CAIRN_ERROR(OwnedName::take(files, directory, "ckpt", 0), Code::busy, "is in use");
  EXPECT_CAIRN_ERROR(take(), Code::busy, "is in use");
  steps.reset();
  exports->check();
  EXPECT_CAIRN_ERROR(take(), Code::busy, "is in use");
  steps = OwnedName::take(files, directory, "ckpt", 0);
  exports.reset();
  steps->check();
  steps.reset();
  take().check();
}

TEST(Ownership, AForkedChildSharesNoName) {
  test::TemporaryDirectory temporary;
  const auto files = io::posix_file_system();
  const auto held = OwnedName::take(files, temporary.path(), "ckpt", 0);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      OwnedName::take(files, temporary.path(), "export", 0);
    } catch (const Error& error) {
      ::_exit(error.code() == Code::busy ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Ownership, RecordsAreReadBackAndOthersRefused) {
  auto record = stranger("a\nb");
  record.by_heartbeat = true;
  record.processes = "pid:[1]";
  const auto back = parse_owner(print_owner(record));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->token, record.token);
  EXPECT_EQ(back->host, "a?b");
  EXPECT_EQ(back->pid, 4242);
  EXPECT_EQ(back->processes, "pid:[1]");
  EXPECT_EQ(back->job, "77");
  EXPECT_EQ(back->start_seconds, record.start_seconds);
  EXPECT_EQ(back->heartbeat_seconds, record.heartbeat_seconds);
  EXPECT_TRUE(back->by_heartbeat);
  record.job = "";
  EXPECT_EQ(parse_owner(print_owner(record))->job, "");
  EXPECT_FALSE(parse_owner(""));
  EXPECT_FALSE(parse_owner("token\nhost x\n"));
  EXPECT_FALSE(parse_owner("token " + record.token + "\npid 1x\n"));
  EXPECT_TRUE(parse_owner("token " + record.token));
  record.start_seconds = -1;
  EXPECT_EQ(describe(record), "process 4242 on host a\nb, since no time");
  record.start_seconds = 1e74;  // too large for an integer
  EXPECT_EQ(describe(record), "process 4242 on host a\nb, since no time");
}

TEST(Ownership, NamesTheSlurmJob) {
  ::setenv("SLURM_JOB_ID", "123_4", 1);
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto owner = Ownership::take(files, "/run", 0);
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_CAIRN_ERROR(Ownership::take(files, "/run", 0), Code::busy, ", job 123_4, since 20");
}

TEST(Ownership, AFailedTakeLeavesNothingHeld) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  files->inject({.code = Code::no_space, .kind = "write", .path_part = "owner"});
  EXPECT_CAIRN_ERROR(Ownership::take(files, "/run", 0), Code::no_space, "owner.tmp-");
  EXPECT_THAT(private_files(*files, "/run"), ElementsAre("lock"));
  files->inject({.code = Code::io, .kind = "rename", .path_part = "owner"});
  EXPECT_CAIRN_ERROR(Ownership::take(files, "/run", 0), Code::io, "rename");
  EXPECT_THAT(private_files(*files, "/run"), ElementsAre("lock"));
  Ownership::take(files, "/run", 0).check();
}

TEST(Ownership, TheEndNeverThrows) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  std::string logged;
  set_log_sink([&](LogLevel, std::string_view message) { logged = message; });
  {
    const auto owner = Ownership::take(files, "/run", 0);
    files->inject({.code = Code::io, .kind = "remove", .path_part = "owner"});
  }
  EXPECT_THAT(logged, test::Says("cannot give up /run: cannot remove file: /run/.cairn/owner"));
  {
    const auto owner = Ownership::take(files, "/run", 0);
    files->set_observer([](const std::string&) { throw 7; });
  }
  set_log_sink({});
  files->set_observer({});
  Ownership::take(files, "/run", 0).check();
}

TEST(Ownership, EveryCrashLeavesADirectoryThatCanBeTaken) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  { const auto owner = Ownership::take(files, "/run", 0); }
  const auto count = files->operation_count();
  EXPECT_GT(count, 8u);
  for (std::size_t stop = 0; stop <= count; ++stop) {
    for (const auto& choice : files->crash_choices(stop)) {
      const auto disk = files->crash(stop, choice);
      const auto owner = Ownership::take(disk, "/run", 0);
      EXPECT_NO_THROW(owner.check()) << files->describe(stop, choice);
      EXPECT_THAT(private_files(*disk, "/run"), ElementsAre("lock", "owner"));
    }
  }
}

// Two processes: the second waits for the first to die, which happens without a destructor.
TEST(Ownership, WaitsForADyingProcess) {
  test::TemporaryDirectory temporary;
  int ready[2], go[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto owner = Ownership::take(io::posix_file_system(), temporary.path(), 0);
    char end;
    if (::write(ready[1], "x", 1) != 1 || ::read(go[0], &end, 1) != 1) ::_exit(1);
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_CAIRN_ERROR(Ownership::take(io::posix_file_system(), temporary.path(), 0), Code::busy,
                     cat("process ", child, " on host "));
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  const auto owner = Ownership::take(io::posix_file_system(), temporary.path(), 120);
  owner.check();
  EXPECT_EQ(read_owner(*io::posix_file_system(), temporary.path())->pid, ::getpid());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (int descriptor : {ready[0], ready[1], go[0], go[1]}) ::close(descriptor);
}

TEST(Ownership, AForkedChildGivesNothingUp) {
  test::TemporaryDirectory temporary;
  const auto files = io::posix_file_system();
  auto owner = std::make_unique<Ownership>(Ownership::take(files, temporary.path(), 0));
  const pid_t child = ::fork();
  if (child == 0) {
    owner.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  owner->check();
  EXPECT_CAIRN_ERROR(Ownership::take(files, temporary.path(), 0), Code::busy, "in use");
}

// A file system without locks, with a clock of its own.
class WithoutLocks : public ::testing::Test {
 protected:
  WithoutLocks() : files(std::make_shared<io::MemoryFileSystem>()) {
    files->inject({.code = Code::unsupported,
                   .kind = "lock",
                   .path_part = "",
                   .skip = 0,
                   .times = static_cast<std::size_t>(-1)});
    files->set_clock([this] { return clock.load(); });
    io::create_directories(*files, "/run/.cairn");
  }
  Ownership take() { return Ownership::take(files, "/run", 0, options); }
  void leave(const OwnerRecord& record) {
    io::write_file(*files, "/run/.cairn/owner", print_owner(record));
  }

  std::atomic<double> clock = 1000;
  std::shared_ptr<io::MemoryFileSystem> files;
  OwnershipOptions options{.stale_seconds = 120, .heartbeat_seconds = 1e6, .overlap_seconds = 0};
};

TEST_F(WithoutLocks, TheRecordDecides) {
  {
    const auto owner = take();
    owner.check();
    EXPECT_TRUE(read_owner(*files, "/run")->by_heartbeat);
    EXPECT_CAIRN_ERROR(take(), Code::busy,
                       "If it is dead: this file system has no locks, so wait 120 seconds.");
    owner.check();
    EXPECT_THAT(private_files(*files, "/run"), ElementsAre("owner"));
  }
  EXPECT_THAT(private_files(*files, "/run"), ElementsAre());
  take().check();
}

TEST_F(WithoutLocks, FreshRecordOfAnotherHostIsBusyAndAStaleOneIsTakenOver) {
  auto record = stranger();
  record.by_heartbeat = true;
  record.processes = "pid:[1]";
  leave(record);
  clock = 1119;
  EXPECT_CAIRN_ERROR(take(), Code::busy, "process 4242 on host elsewhere, job 77");
  clock = 1121;
  const auto owner = take();
  owner.check();
  EXPECT_EQ(read_owner(*files, "/run")->token, owner.record().token);
}

TEST_F(WithoutLocks, ADeadProcessOfThisHostIsTakenOverAtOnce) {
  auto record = [&] {
    const auto owner = take();
    return *read_owner(*files, "/run");
  }();
  record.token = new_uuid();
  leave(record);
  EXPECT_CAIRN_ERROR(take(), Code::busy, "in use");  // this process is alive
  files->remove("/run/.cairn/owner");
  record.pid = dead_process();
  leave(record);
  take().check();
  record.processes = "pid:[1]";
  leave(record);
  EXPECT_CAIRN_ERROR(take(), Code::busy, "in use");  // numbers of another namespace say nothing
}

// If two take over at the same time, the later one wins, and the earlier one notices.
TEST_F(WithoutLocks, OneOfTwoWins) {
  const auto other = stranger();
  files->set_observer([&](const std::string& operation) {
    if (operation != "sync_directory /run/.cairn" || read_owner(*files, "/run")->pid == 4242)
      return;
    io::replace_file(*files, "/run/.cairn/owner", print_owner(other));
  });
  EXPECT_CAIRN_ERROR(take(), Code::busy, "process 4242 on host elsewhere");
  EXPECT_EQ(read_owner(*files, "/run")->token, other.token);
}

TEST_F(WithoutLocks, TheFasterOneRemovesWhatIsPrepared) {
  const auto other = stranger();
  bool done = false;
  files->set_observer([&](const std::string& operation) {
    if (done || !operation.starts_with("rename ")) return;
    done = true;
    for (const auto& name : private_files(*files, "/run")) files->remove("/run/.cairn/" + name);
    leave(other);
  });
  EXPECT_CAIRN_ERROR(take(), Code::busy, "process 4242 on host elsewhere");
}

TEST_F(WithoutLocks, TheHeartBeats) {
  options.heartbeat_seconds = 0.001;
  std::mutex mutex;
  std::condition_variable changed;
  int beats = 0;
  files->set_observer([&](const std::string& operation) {
    if (operation != "sync /run/.cairn/owner") return;
    std::lock_guard guard(mutex);
    ++beats;
    changed.notify_all();
  });
  const auto wait_for_more = [&] {
    std::unique_lock guard(mutex);
    const int start = beats;
    // The second beat from now on began after this call.
    return changed.wait_for(guard, std::chrono::seconds(120), [&] { return beats >= start + 2; });
  };
  auto owner = std::make_unique<Ownership>(take());
  clock = 5000;
  ASSERT_TRUE(wait_for_more());
  EXPECT_EQ(files->status("/run/.cairn/owner")->modified_seconds, 5000);
  owner->check();
  EXPECT_CAIRN_ERROR(take(), Code::busy, "in use");

  // A failed heartbeat is reported, and the next one is made.
  std::string logged;
  set_log_sink([&](LogLevel, std::string_view message) {
    std::lock_guard guard(mutex);
    logged = message;
    changed.notify_all();
  });
  files->inject({.code = Code::io, .kind = "write", .path_part = "owner"});
  ASSERT_TRUE(wait_for_more());
  {
    std::lock_guard guard(mutex);
    EXPECT_THAT(logged, test::Says("the owner's heartbeat failed: cannot write"));
  }

  // After a takeover the heartbeat ends by itself and logs that.
  io::replace_file(*files, "/run/.cairn/owner", print_owner(stranger()));
  {
    std::unique_lock guard(mutex);
    ASSERT_TRUE(changed.wait_for(guard, std::chrono::seconds(120),
                                 [&] { return logged.find("taken over") != std::string::npos; }));
  }
  EXPECT_CAIRN_ERROR(owner->check(), Code::busy, "host elsewhere");
  owner.reset();
  set_log_sink({});
  EXPECT_EQ(read_owner(*files, "/run")->host, "elsewhere");
}

// The record is replaced after the heartbeat has read it, and before it writes.
TEST_F(WithoutLocks, ALateBeatDoesNotTakeTheDirectoryBack) {
  options.heartbeat_seconds = 0.001;
  std::mutex mutex;
  std::condition_variable changed;
  bool replaced = false, told = false;
  set_log_sink([&](LogLevel, std::string_view message) {
    std::lock_guard guard(mutex);
    told = told || message.find("taken over") != std::string::npos;
    changed.notify_all();
  });
  auto owner = std::make_unique<Ownership>(take());
  files->set_observer([&](const std::string& operation) {
    if (!operation.starts_with("write /run/.cairn/owner [") || std::exchange(replaced, true))
      return;
    io::replace_file(*files, "/run/.cairn/owner", print_owner(stranger()));
  });
  {
    std::unique_lock guard(mutex);
    ASSERT_TRUE(changed.wait_for(guard, std::chrono::seconds(120), [&] { return told; }));
  }
  EXPECT_EQ(read_owner(*files, "/run")->host, "elsewhere");
  EXPECT_CAIRN_ERROR(owner->check(), Code::busy, "host elsewhere");
  owner.reset();
  set_log_sink({});
  EXPECT_EQ(read_owner(*files, "/run")->host, "elsewhere");
}

// An owner from a time when locks did not work is respected when they do.
TEST(Ownership, HeartbeatOwnerIsRespectedByOneWithALock) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  double clock = 1000;
  files->set_clock([&] { return clock; });
  io::create_directories(*files, "/run/.cairn");
  auto record = stranger();
  record.by_heartbeat = true;
  io::write_file(*files, "/run/.cairn/owner", print_owner(record));
  EXPECT_CAIRN_ERROR(Ownership::take(files, "/run", 0), Code::busy, "host elsewhere");
  EXPECT_TRUE(files->try_lock("/run/.cairn/lock")) << "it must not stay locked";
  clock = 1130;
  Ownership::take(files, "/run", 0).check();
}

}  // namespace
}  // namespace cairn::commit
