// A granted lock does not prove that an owner on another host is dead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "cairn/log.hpp"
#include "io/expect_error.hpp"
#include "store/commit/owner_kit.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"

namespace cairn::commit {
namespace {

// A lock that is granted here may be valid on this host only.
class LockFromElsewhere : public testing::Test {
 protected:
  LockFromElsewhere() : files(std::make_shared<io::MemoryFileSystem>()) {
    files->set_clock([this] { return clock.load(); });
    io::create_directories(*files, "/run/.cairn");
    leave();
    set_log_sink([this](LogLevel, std::string_view message) { logged = message; });
  }
  ~LockFromElsewhere() override { set_log_sink({}); }
  void leave() { io::replace_file(*files, "/run/.cairn/owner", print_owner(stranger())); }
  // Calls `call` at each attempt, before the attempt looks at the record's age.
  void at_each_attempt(std::function<void(int)> call) {
    files->set_observer([this, call](const std::string& operation) {
      if (operation.starts_with("create /run/.cairn/owner.tmp-")) call(++attempts);
    });
  }

  std::atomic<double> clock = 1000;
  int attempts = 0;
  std::string logged;
  std::shared_ptr<io::MemoryFileSystem> files;
  OwnershipOptions options{
      .lock_stale_seconds = 60, .heartbeat_seconds = 0.01, .overlap_seconds = 0};
};

TEST_F(LockFromElsewhere, IsTakenWhenTheOwnerGaveNoSignOfLife) {
  at_each_attempt([&](int attempt) { clock = 1000 + 25 * attempt; });
  const auto owner = Ownership::take(files, "/run", 0, options);
  owner.check();
  EXPECT_EQ(attempts, 3);
  EXPECT_THAT(logged, test::Says("process 4242 on host elsewhere"));
  EXPECT_THAT(logged, test::Says("waiting for up to 60 seconds for a sign of life"));
}

// The clock of the storage stands still, or was set back: an owner whose record was watched for
// long enough counts as dead.
TEST_F(LockFromElsewhere, IsNotWaitedForForEver) {
  clock = 500;
  options.lock_stale_seconds = 0.01;
  Ownership::take(files, "/run", 0, options).check();
}

TEST_F(LockFromElsewhere, IsGivenBackWhenTheOwnerLives) {
  at_each_attempt([&](int attempt) {
    clock = 1000 + 25 * attempt;
    if (attempt == 2) leave();
  });
  EXPECT_CAIRN_ERROR(Ownership::take(files, "/run", 0, options), Code::busy, "host elsewhere");
  EXPECT_EQ(attempts, 2);
  EXPECT_TRUE(files->try_lock("/run/.cairn/lock")) << "it must not stay locked";
}

// Many hosts are called localhost.
TEST_F(LockFromElsewhere, HostsAreToldApartByTheirKernel) {
  auto record = [&] {
    clock = 1100;
    const auto owner = Ownership::take(files, "/run", 0, options);
    return owner.record();
  }();
  if (record.kernel.empty()) GTEST_SKIP() << "no boot identity here";
  record.token = new_uuid();
  record.pid = dead_process();
  record.kernel = new_uuid();
  io::write_file(*files, "/run/.cairn/owner", print_owner(record));
  at_each_attempt([&](int attempt) {
    if (attempt == 2) io::replace_file(*files, "/run/.cairn/owner", print_owner(record));
    clock = 1100 + attempt;
  });
  EXPECT_CAIRN_ERROR(Ownership::take(files, "/run", 0, options), Code::busy, "in use");
}

}  // namespace
}  // namespace cairn::commit
