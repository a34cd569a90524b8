// The ownership of a directory on a file system without renames.
#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "store/commit/names.hpp"
#include "store/commit/owner_kit.hpp"
#include "store/commit/ownership.hpp"
#include "testing/memory.hpp"

namespace cairn::commit {
namespace {

using ::testing::ElementsAre;

TEST(WithoutRenames, TheDirectorySaysSo) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  EXPECT_FALSE(says_no_rename({files, "/run"}));
  {
    const auto owner = Ownership::take(files, "/run", 0);
    EXPECT_TRUE(owner.atomic_rename());
  }
  files->refuse_renames();
  {
    const auto owner = Ownership::take(files, "/run", 0);
    owner.check();
    EXPECT_FALSE(owner.atomic_rename()) << "the first rename was refused";
    EXPECT_THAT(private_files(*files, "/run"), ElementsAre("lock", "no-atomic-rename", "owner"));
    EXPECT_CAIRN_ERROR(Ownership::take(files, "/run", 0), Code::busy, "in use");
  }
  EXPECT_THAT(private_files(*files, "/run"), ElementsAre("lock", "no-atomic-rename"));
  EXPECT_TRUE(says_no_rename({files, "/run"}));
  EXPECT_FALSE(Ownership::take(files, "/run", 0).atomic_rename());
}

TEST(WithoutRenames, OneNameForgoesThemForAll) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto first = OwnedName::take(files, "/run", "a", 0);
  EXPECT_TRUE(first.atomic_rename());
  const auto second = OwnedName::take(files, "/run", "b", 0, {.atomic_rename = false});
  EXPECT_FALSE(second.atomic_rename());
  EXPECT_TRUE(says_no_rename({files, "/run"}));
}

TEST(WithoutRenames, EveryCrashLeavesADirectoryThatCanBeTaken) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  files->refuse_renames();
  for (int twice = 0; twice < 2; ++twice) {
    const auto owner = Ownership::take(files, "/run", 0, {.atomic_rename = false});
  }
  for (std::size_t stop = 0; stop <= files->operation_count(); ++stop) {
    for (const auto& choice : files->crash_choices(stop)) {
      const auto disk = files->crash(stop, choice);
      const auto owner = Ownership::take(disk, "/run", 0, {.atomic_rename = false});
      EXPECT_NO_THROW(owner.check()) << files->describe(stop, choice);
      EXPECT_THAT(disk->list("/run/.cairn"), ElementsAre("lock", "no-atomic-rename", "owner"));
    }
  }
}

// The file system has neither locks nor renames: the record decides, and is renewed in place.
class WithoutEither : public ::testing::Test {
 protected:
  WithoutEither() {
    files->refuse_renames();
    files->inject({.code = Code::unsupported,
                   .kind = "lock",
                   .path_part = "",
                   .skip = 0,
                   .times = static_cast<std::size_t>(-1)});
    files->set_clock([this] { return clock.load(); });
  }
  Ownership take() { return Ownership::take(files, "/run", 0, options); }

  std::atomic<double> clock = 1000;
  std::shared_ptr<io::MemoryFileSystem> files = std::make_shared<io::MemoryFileSystem>();
  OwnershipOptions options{
      .atomic_rename = false, .stale_seconds = 120, .heartbeat_seconds = 1e6, .overlap_seconds = 0};
};

// The heartbeat writes the record in place, and it is never unreadable.
TEST_F(WithoutEither, TheHeartBeatsInPlace) {
  options.heartbeat_seconds = 0.001;
  std::mutex mutex;
  std::condition_variable changed;
  int beats = 0, unreadable = 0;
  auto owner = std::make_unique<Ownership>(take());
  files->set_observer([&](const std::string& operation) {
    if (operation.find("/run/.cairn/owner") == std::string::npos) return;
    const bool readable = read_owner(*files, "/run").has_value();
    std::lock_guard guard(mutex);
    unreadable += !readable;
    beats += operation == "sync /run/.cairn/owner";
    changed.notify_all();
  });
  clock = 5000;
  {
    std::unique_lock guard(mutex);
    ASSERT_TRUE(changed.wait_for(guard, std::chrono::seconds(120), [&] { return beats >= 3; }));
    EXPECT_EQ(unreadable, 0);
  }
  EXPECT_EQ(files->status("/run/.cairn/owner")->modified_seconds, 5000);
  owner->check();
  EXPECT_EQ(read_owner(*files, "/run")->token, owner->record().token);
  files->set_observer({});
  EXPECT_CAIRN_ERROR(take(), Code::busy, "in use");
  owner.reset();
  EXPECT_THAT(files->list("/run/.cairn"), ElementsAre("no-atomic-rename"));
}

TEST_F(WithoutEither, OneOfTwoWins) {
  OwnerRecord other;
  other.token = new_uuid();
  other.host = "elsewhere";
  other.pid = 4242;
  bool done = false;
  files->set_observer([&](const std::string& operation) {
    if (done || operation != "create /run/.cairn/owner") return;
    done = true;
    io::write_file(*files, "/run/.cairn/owner", print_owner(other));
  });
  EXPECT_CAIRN_ERROR(take(), Code::busy, "process 4242 on host elsewhere");
  EXPECT_EQ(read_owner(*files, "/run")->token, other.token);
}

}  // namespace
}  // namespace cairn::commit
