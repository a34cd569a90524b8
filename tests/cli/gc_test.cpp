// Which files `cairn gc` completes, removes and leaves alone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/tool.hpp"
#include "store/commit/ownership.hpp"
#include "support/forwarding_files.hpp"
#include "support/says.hpp"
#include "testing/crash.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The disk of a job that dies at the first rename to, or write below, a path that contains this.
class DyingDisk : public ForwardingFiles {
 public:
  explicit DyingDisk(std::string at)
      : ForwardingFiles(io::posix_file_system()), at_(std::move(at)) {}

 protected:
  void around(const char* kind, const io::Path& path, bool,
              const std::function<void()>& operation) override {
    const std::string_view what = kind;
    const bool writes = what == "create" || what == "open to write" || what == "rename";
    // What a manager would do while it unwinds does not happen: the process is gone.
    is_dead_ = is_dead_ || (writes && path.string().find(at_) != std::string::npos);
    if (is_dead_) throw Crashed{};
    operation();
  }

 private:
  std::atomic<bool> is_dead_ = false;
  std::string at_;
};

class Gc : public testing::Test {
 protected:
  Gc() {
    set_log_sink({});
    state_.add("value", value_);
  }
  // The job saves, and dies at that place; with "" it does not die.
  void save(std::int64_t step, const std::string& dies_at = "") {
    auto options = options_;
    options.keep.last = 0;
    options.write.part_records = true;
    if (!dies_at.empty()) options.write.file_system = std::make_shared<DyingDisk>(dies_at);
    value_ = static_cast<double>(step);
    try {
      CheckpointManager(serial_group(), scratch_.path(), options).save(step, state_);
      EXPECT_EQ(dies_at, "") << "the job lives";
    } catch (const Crashed&) {
    }
  }
  Ran gc(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"gc", scratch_.path().string()});
    return run_tool(more);
  }
  bool left_over() const {
    for (const auto& name : scratch_.listing()) {
      if (name.find("_temp_") != std::string::npos) return true;
      if (name.find(".part_") != std::string::npos) return true;
    }
    return false;
  }

  ManagerOptions options_;
  double value_ = 0;
  State state_;
  ScratchDirectory scratch_;
};

TEST_F(Gc, CompletesASaveThatWasDurable) {
  save(1);
  save(2, "ckpt-2.index");
  ASSERT_TRUE(left_over());
  const auto before = scratch_.listing();
  const auto would = gc({"--dry-run"});
  EXPECT_EQ(would.status, 0);
  EXPECT_THAT(would.out, AllOf(test::Says("would complete ckpt-"),
                               test::Says(" (step 2: all its bytes were durable)\n"),
                               Not(test::Says("remove ckpt-2.data"))));
  EXPECT_EQ(scratch_.listing(), before);
  const auto done = gc();
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, test::Says(" (step 2: all its bytes were durable)\n"));
  EXPECT_FALSE(left_over());
  EXPECT_EQ(run_tool({"verify", scratch_.path().string()}).status, 0);
  // The state file names it, too.
  EXPECT_EQ(run_tool({"cat", scratch_.path().string(), "value"}).out, "2\n");
  EXPECT_THAT(gc().out, test::Says("nothing to do"));
}

TEST_F(Gc, RemovesASaveThatWasNot) {
  save(1);
  save(2, "_temp_");
  const auto temp = scratch_.path() / "ckpt-2_temp_0123456789abcdef0123456789abcdef";
  fs::create_directories(temp);
  write_bytes(temp / "part-00000-of-00002", "half of it");
  write_bytes(scratch_.path() / "ckpt-2.data-00000-of-00002", "orphan");
  write_bytes(scratch_.path() / "ckpt-2.notes", "the user's");
  write_bytes(scratch_.path() / "other-2.data-00000-of-00001", "not ours to judge");
  const auto before = scratch_.listing();
  const auto would = gc({"--dry-run"});
  EXPECT_THAT(would.out, AllOf(HasSubstr("would remove " + temp.filename().string()),
                               test::Says("would remove ckpt-2.data-00000-of-00002"),
                               Not(HasSubstr("notes")), Not(HasSubstr("other"))));
  EXPECT_EQ(scratch_.listing(), before);
  EXPECT_EQ(gc().status, 0);
  EXPECT_FALSE(fs::exists(temp));
  EXPECT_FALSE(fs::exists(scratch_.path() / "ckpt-2.data-00000-of-00002"));
  EXPECT_TRUE(fs::exists(scratch_.path() / "ckpt-2.notes"));
  EXPECT_TRUE(fs::exists(scratch_.path() / "other-2.data-00000-of-00001"));
  EXPECT_EQ(run_tool({"verify", (scratch_.path() / "ckpt-1").string()}).status, 0);
}

TEST_F(Gc, CompletesADirectSave) {
  options_.write.atomic_rename = false;
  save(1);
  save(2, "ckpt-2.index");
  const auto before = scratch_.listing();
  EXPECT_THAT(gc({"--dry-run"}).out,
              AllOf(test::Says("would complete ckpt-2.part_"), Not(HasSubstr("remove"))));
  EXPECT_EQ(scratch_.listing(), before);
  EXPECT_THAT(gc().out, test::Says("complete ckpt-2.part_"));
  EXPECT_FALSE(left_over());
  EXPECT_EQ(run_tool({"verify", scratch_.path().string()}).status, 0);
  EXPECT_EQ(run_tool({"cat", scratch_.path().string(), "value"}).out, "2\n");
}

TEST_F(Gc, GivesTheIndexBackThatADirectSaveWasReplacing) {
  options_.write.atomic_rename = false;
  options_.overwrite = true;
  save(1);
  save(1, "ckpt-1.index");
  for (const auto& name : scratch_.listing()) {
    if (name.find("/record-") != std::string::npos) fs::remove(scratch_.path() / name);
  }
  EXPECT_FALSE(fs::exists(scratch_.path() / "ckpt-1.index"));
  EXPECT_THAT(gc({"--dry-run"}).out, AllOf(test::Says("would complete ckpt-1.index (it comes back"),
                                           test::Says("would remove ckpt-1.part_"),
                                           test::Says("would remove ckpt-1.data-00000-of-00003"),
                                           Not(HasSubstr("of-00002"))));
  EXPECT_EQ(gc().status, 0);
  EXPECT_FALSE(left_over());
  EXPECT_EQ(run_tool({"verify", scratch_.path().string()}).status, 0);
}

TEST_F(Gc, RemovesADirectSaveThatWasNot) {
  options_.write.atomic_rename = false;
  save(1, "record-");
  ASSERT_TRUE(left_over());
  EXPECT_THAT(gc({"--dry-run"}).out, AllOf(test::Says("would remove ckpt-1.part_"),
                                           test::Says("would remove ckpt-1.data-")));
  EXPECT_EQ(gc().status, 0);
  for (const auto& name : scratch_.listing()) EXPECT_THAT(name, Not(StartsWith("ckpt")));
}

// An owner leaves this if it dies between the two halves of a removal.
TEST_F(Gc, GivesBackWhatARemovalHadSetAsideWhichLsAndVerifySee) {
  save(10);
  save(20);
  const auto run = scratch_.path();
  const auto aside = run / "ckpt-10.index.aside_0123456789abcdef";
  std::filesystem::rename(run / "ckpt-10.index", aside);
  EXPECT_THAT(run_tool({"ls", run}).out, test::Says("its removal did not finish, whole"));
  EXPECT_EQ(run_tool({"ls", run, "--json"}).json()["checkpoints"][0]["set_aside"], true);
  for (const auto& target : {run, run / "ckpt-10"}) {
    const auto ran = run_tool({"verify", target});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out,
                AllOf(HasSubstr("ckpt-10: whole"), test::Says("note: its removal did not finish")));
  }
  auto bytes = read_bytes(run / "ckpt-10.data-00000-of-00002");
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  write_bytes(run / "ckpt-10.data-00000-of-00002", bytes);
  EXPECT_THAT(run_tool({"verify", run, "--repair"}).out, HasSubstr("ckpt-10: damaged"));
  EXPECT_TRUE(std::filesystem::exists(aside)) << "nothing of it is repaired";
  EXPECT_EQ(run_tool({"gc", run}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(run / "ckpt-10.index"));
  EXPECT_THAT(run_tool({"verify", run}).out, Not(HasSubstr("removal")));
}

TEST_F(Gc, NothingOfOursIsTouchedNotEvenByALock) {
  write_bytes(scratch_.path() / "model-3.data-00000-of-00001", "of another program");
  const auto ran = gc();
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, test::Says("nothing to do"));
  EXPECT_THAT(scratch_.listing(), testing::ElementsAre("model-3.data-00000-of-00001"));
}

// Each save is another job's, which has read the file before it shares it.
TEST_F(Gc, StepsThatShareAFileAreCompletedToldOfAndRemoved) {
  std::vector<double> base(1000, 0.5);
  state_.add("base", base);
  options_.frozen.keys = {"base"};
  save(1);
  save(2);
  save(3, "ckpt-3.index");
  const auto directory = scratch_.path().string();
  const auto names = [&](int step) {
    return fs::hard_link_count(scratch_.path() / cat("ckpt-", step, ".data-00001-of-00003"));
  };
  EXPECT_THAT(gc().out, test::Says(" (step 3: all its bytes were durable)\n"));
  EXPECT_EQ(names(3), 3);
  EXPECT_THAT(run_tool({"ls", directory}).out, HasSubstr("whole, newest, shares 7.81 KiB"));
  EXPECT_EQ(run_tool({"ls", directory, "--json"}).json()["checkpoints"][0]["shared_bytes"], 8000);
  EXPECT_THAT(gc({"--max-to-keep", "2"}).out, test::Says("remove ckpt-1"));
  EXPECT_THAT(gc({"--max-to-keep", "-1"}).err, test::Says("-1 is no whole number from 0 on"));
  EXPECT_EQ(names(3), 2);
  EXPECT_EQ(run_tool({"verify", directory}).status, 0);
  const auto file = scratch_.path() / "ckpt-2.data-00001-of-00003";
  auto bytes = read_bytes(file);
  bytes[100] ^= 1;
  std::ofstream(file, std::ios::in | std::ios::binary).write(bytes.data(), 8000);
  const auto verified = run_tool({"verify", directory});
  EXPECT_EQ(verified.status, 1);
  EXPECT_THAT(verified.out,
              AllOf(test::Says("note: the damaged file is that of other steps too: ckpt-3"),
                    test::Says("note: the damaged file is that of other steps too: ckpt-2")));
  // The next job reads it, and writes it again.
  save(4);
  EXPECT_EQ(names(4), 1);
  EXPECT_EQ(run_tool({"verify", (scratch_.path() / "ckpt-4").string()}).status, 0);
}

TEST_F(Gc, KeepsWhatARestartTakes) {
  for (int step = 1; step <= 4; ++step) save(step);
  const auto directory = scratch_.path().string();
  for (const char* step : {"3", "4"}) {
    EXPECT_THAT(run_tool({"mark", directory, step, "bad"}).out, test::Says("is marked bad"));
  }
  EXPECT_THAT(run_tool({"ls", directory}).out, test::Says("whole, newest, marked bad"));
  EXPECT_EQ(run_tool({"ls", directory, "--json"}).json()["checkpoints"][3]["marked_bad"], true);
  EXPECT_EQ(gc({"--max-to-keep", "1"}).out,
            "remove ckpt-1 (not one of the last 1)\nremove ckpt-3 (not one of the last 1)\n");
  EXPECT_THAT(
      gc({"--max-to-keep", "1", "--dry-run"}).out,
      test::Says(
          "would remove .cairn/marked/ckpt-3 (a mark of a checkpoint that is gone)\nwould keep "
          "ckpt-2 (the newest that is not passed over)\nwould keep ckpt-4 (the newest)\n"));
  EXPECT_THAT(run_tool({"mark", directory, "4", "good"}).out, test::Says("is marked good"));
  EXPECT_THAT(run_tool({"ls", directory}).out, testing::Not(HasSubstr("marked")));
  EXPECT_THAT(gc({"--max-to-keep", "1"}).out, test::Says("remove ckpt-2 (not one of the last 1)"));
  EXPECT_EQ(run_tool({"mark", directory, "9", "bad"}).status, 2);
  EXPECT_EQ(run_tool({"mark", directory, "4", "worse"}).status, 2);
}

// Counts of a history that an owner has left: a step that was passed over stays behind, and is
// listed.
TEST_F(Gc, HeedsWhatRestartsHaveLearnt) {
  for (int step = 1; step <= 2; ++step) save(step);
  const auto directory = scratch_.path().string();
  const auto newest = run_tool({"ls", directory, "--json"}).json()["checkpoints"][1];
  const auto text = cat("cairn runs 2\nearlier 0 0\nvain ", newest["sequence"].get<std::int64_t>(),
                        " 2 3 passed\n");
  std::ofstream(scratch_.path() / ".cairn/runs.ckpt")
      << text << "checksum " << hex(crc32c(text)) << "\n";
  EXPECT_THAT(run_tool({"ls", directory}).out, test::Says("newest, restored in vain: 3"));
  EXPECT_THAT(gc({"--max-to-keep", "1"}).out, test::Says("nothing to do"));
  EXPECT_EQ(run_tool({"mark", directory, "2", "good"}).status, 0);
  EXPECT_THAT(run_tool({"ls", directory}).out, testing::Not(test::Says("in vain")));
  EXPECT_EQ(gc({"--max-to-keep", "1"}).out, "remove ckpt-1 (not one of the last 1)\n");
}

TEST_F(Gc, RetiresByTheRulesGiven) {
  for (int step = 1; step <= 6; ++step) save(step);
  const auto directory = scratch_.path().string();
  EXPECT_EQ(run_tool({"pin", directory, "2"}).out, "ckpt-2 is pinned\n");
  EXPECT_THAT(run_tool({"ls", directory}).out, HasSubstr("whole, pinned"));
  EXPECT_EQ(run_tool({"ls", directory, "--json"}).json()["checkpoints"][1]["pinned"], true);
  const auto before = scratch_.listing();
  const auto would = gc({"--max-to-keep", "2", "--keep-every-steps", "4", "--dry-run"});
  EXPECT_EQ(would.out,
            "would remove ckpt-1 (not one of the last 2)\n"
            "would keep ckpt-2 (pinned)\n"
            "would remove ckpt-3 (not one of the last 2)\n"
            "would keep ckpt-4 (a multiple of 4 steps)\n"
            "would keep ckpt-5 (one of the last 2)\n"
            "would keep ckpt-6 (the newest)\n");
  EXPECT_EQ(scratch_.listing(), before);
  const auto done = gc({"--max-to-keep", "2", "--keep-every-steps", "4"});
  EXPECT_EQ(done.out,
            "remove ckpt-1 (not one of the last 2)\nremove ckpt-3 (not one of the last 2)\n");
  EXPECT_FALSE(fs::exists(scratch_.path() / "ckpt-1.index"));
  EXPECT_EQ(run_tool({"pin", directory, "2", "--remove"}).out, "ckpt-2 is no longer pinned\n");
  EXPECT_EQ(run_tool({"pin", directory, "2", "--remove"}).out, "ckpt-2 was not pinned\n");
  EXPECT_THAT(gc({"--max-to-keep", "1"}).out, test::Says("remove ckpt-2"));
  EXPECT_EQ(run_tool({"cat", directory, "value"}).out, "6\n");
  EXPECT_EQ(gc({"--keep-best", "1"}).status, 2) << "rules without a number to keep";
}

// A small disk of its own that is full.
class GcOnAFullDisk : public Gc {
 protected:
  void SetUp() override {
    const auto* options = "size=8m,nr_inodes=200";
    mounted_ = ::mount("cairn-test", scratch_.path().c_str(), "tmpfs", 0, options) == 0;
    if (!mounted_) GTEST_SKIP() << "a small tmpfs cannot be mounted";
  }
  ~GcOnAFullDisk() override {
    if (mounted_) ::umount2(scratch_.path().c_str(), MNT_DETACH);
  }
  // Fills the disk until no byte is left, or no inode.
  void fill(bool bytes) const {
    const std::string some(bytes ? 4096 : 0, 'x');
    for (int number = 0;; ++number) {
      const auto path = scratch_.path() / ("filler-" + std::to_string(number));
      const int file = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
      if (file < 0) break;
      while (bytes && ::write(file, some.data(), some.size()) > 0) {
      }
      ::close(file);
      if (bytes) break;
    }
    ASSERT_EQ(errno, ENOSPC);
  }
  void remove_rooms() const {
    for (const char* room : {"room.0", "room.1"}) fs::remove(scratch_.path() / ".cairn" / room);
  }
  std::string ls() const { return run_tool({"ls", scratch_.path().string()}).out; }

 private:
  bool mounted_ = false;
};

TEST_F(GcOnAFullDisk, PinsAndMakesRoom) {
  const auto directory = scratch_.path().string();
  for (const bool bytes : {true, false}) {
    SCOPED_TRACE(bytes ? "no byte" : "no inode");
    for (int step = 1; step <= 4; ++step) save(step);
    fill(bytes);
    const auto pin = run_tool({"pin", directory, "2"});
    EXPECT_EQ(pin.status, 0) << pin.err;
    EXPECT_EQ(run_tool({"pin", directory, "3"}).status, 2) << "there was room for one";
    const auto done = gc({"--max-to-keep", "1"});
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(done.out,
              "remove ckpt-1 (not one of the last 1)\nremove ckpt-3 (not one of the last 1)\n");
    EXPECT_EQ(run_tool({"cat", directory, "value"}).out, "4\n");
    EXPECT_EQ(run_tool({"verify", directory}).status, 0);
    EXPECT_EQ(run_tool({"pin", directory, "2", "--remove"}).status, 0);
    for (const auto& entry : fs::directory_iterator(scratch_.path())) {
      if (entry.is_regular_file()) fs::remove(entry);
    }
  }
}

TEST_F(GcOnAFullDisk, BeginsWithoutRoomWhereNobodysRecordIs) {
  for (const bool bytes : {true, false}) {
    SCOPED_TRACE(bytes ? "no byte" : "no inode");
    for (int step = 1; step <= 4; ++step) save(step);
    remove_rooms();
    fill(bytes);
    const auto done = gc({"--max-to-keep", "1"});
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_THAT(done.out, AllOf(test::Says("remove ckpt-1 "), test::Says("remove ckpt-2 "),
                                test::Says("remove ckpt-3 ")));
    EXPECT_EQ(run_tool({"cat", scratch_.path().string(), "value"}).out, "4\n");
    EXPECT_EQ(run_tool({"verify", scratch_.path().string()}).status, 0);
    for (const auto& entry : fs::directory_iterator(scratch_.path())) {
      if (entry.is_regular_file()) fs::remove(entry);
    }
  }
}

// A save that waits for room is completed when there is some.
TEST_F(GcOnAFullDisk, CompletesWhatWasDurable) {
  for (int step = 1; step <= 3; ++step) save(step);
  save(4, "ckpt-4.index");
  remove_rooms();
  fill(true);
  const auto done = gc({"--max-to-keep", "1"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_FALSE(left_over());
  EXPECT_EQ(run_tool({"cat", scratch_.path().string(), "value"}).out, "4\n");
  EXPECT_EQ(run_tool({"verify", scratch_.path().string()}).status, 0);
}

TEST_F(Gc, PinsBesideARunningJobAndSaysWhatItCannotPin) {
  save(1);
  const auto directory = scratch_.path().string();
  const auto owner = commit::Ownership::take(io::posix_file_system(), scratch_.path(), 0);
  EXPECT_EQ(run_tool({"pin", directory, "1"}).out, "ckpt-1 is pinned\n");
  const auto missing = run_tool({"pin", directory, "7"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, test::Says("there is no step 7"));
  EXPECT_THAT(run_tool({"pin", directory, "7", "--name", "ckpt"}).err,
              test::Says("there is no checkpoint ckpt-7"));
}

TEST_F(Gc, RefusesWhileAnotherOwnsTheDirectory) {
  save(1);
  save(2, "ckpt-2.index");
  const auto owner = commit::Ownership::take(io::posix_file_system(), scratch_.path(), 0);
  const auto ran = gc();
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr(std::to_string(getpid())));
  EXPECT_TRUE(left_over());
  const auto would = gc({"--dry-run"});
  EXPECT_EQ(would.status, 0);
  EXPECT_THAT(would.err, HasSubstr("is or was owned by process " + std::to_string(getpid())));
}

TEST_F(Gc, SaysWhatIsWrongWithTheQuestion) {
  EXPECT_THAT(gc({"--name", "a/b"}).err, test::Says("checkpoints cannot be called 'a/b'"));
  const auto missing = run_tool({"gc", (scratch_.path() / "none").string()});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, test::Says("there is no directory"));
}

}  // namespace
}  // namespace cairn::test
