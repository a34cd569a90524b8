// Directories that are removed under a manager, and directories that never existed.
#include <filesystem>
#include <functional>

#include "base/text.hpp"
#include "io/temporary_directory.hpp"
#include "support/manager_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::HasSubstr;

using RemovedDirectory = Manager;

// rm -rf under a running job is noticed by a first save, by one like the last, and by an
// asynchronous one.
TEST_P(RemovedDirectory, IsCalledThat) {
  const std::function<void(const io::Path&)> remove = [&](const io::Path& directory) {
    for (const auto& name : files_->list(directory)) {
      const auto path = directory / name;
      const auto status = files_->status(path);
      if (status && status->is_directory) {
        remove(path);
      } else {
        files_->remove(path);
      }
    }
    files_->remove_directory(directory);
  };
  const auto expect_removed = [](Rank& rank, auto&& save) {
    SCOPED_TRACE(rank.group->rank());
    try {
      save();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::not_found) << error.what();
      EXPECT_THAT(
          error.problem(),
          testing::EndsWith("the checkpoint directory was removed while this job had it open"));
      EXPECT_EQ(error.path(), "/run");
      EXPECT_THAT(error.way_out(), test::Says("Open a new manager"));
    }
  };
  for (const int before : {0, 1, 3}) {
    for (const bool behind : {false, true}) {
      SCOPED_TRACE(cat(before, " saves before, ", behind));
      job([&](Rank& rank) {
        for (int step = 1; step <= before; ++step) {
          behind ? static_cast<void>(rank.manager.save_async(step, rank.state))
                 : static_cast<void>(rank.save(step));
          rank.manager.wait();
        }
        rank.group->barrier();
        if (rank.group->rank() == 0) remove("/run");
        rank.group->barrier();
        expect_removed(rank, [&] {
          if (!behind) {
            rank.save(10);
          } else {
            rank.manager.save_async(10, rank.state);
            rank.manager.wait();
          }
        });
        expect_removed(rank, [&] { rank.save(11); });
        expect_removed(rank, [&] { rank.manager.restore_latest(rank.state); });
        expect_removed(rank, [&] { rank.manager.restore(1, rank.state); });
        expect_removed(rank, [&] { rank.manager.open(1); });
        expect_removed(rank, [&] { rank.manager.steps(); });
        expect_removed(rank, [&] { rank.manager.pin(1); });
        expect_removed(rank, [&] { rank.manager.unpin(1); });
        EXPECT_FALSE(io::exists(*files_, "/run"));
      });
      job([&](Rank& rank) { rank.save(1); });
      job([&](Rank& rank) {
        if (rank.group->rank() == 0) remove("/run/.cairn");
        rank.group->barrier();
        expect_error(rank, Code::not_found,
                     "what is Cairn's own in the checkpoint directory was removed",
                     [&] { rank.save(2); });
        rank.group->barrier();
        if (rank.group->rank() == 0) remove("/run");
      });
    }
  }
}

TEST(DirectoryOnDisk, ALinkToNothingIsCalledThat) {
  const test::TemporaryDirectory temporary;
  const auto link = temporary.path() / "run", target = temporary.path() / "scratch";
  std::filesystem::create_directory_symlink(target, link);
  for (const bool read_only : {false, true}) {
    ManagerOptions options;
    options.read_only = read_only;
    test::expect_error(Code::invalid_argument,
                       HasSubstr(cat("the directory ", link.string(), " is a link to ",
                                     target.string(), ", which is not there")),
                       [&] { CheckpointManager(serial_group(), link, options); });
  }
  std::filesystem::create_directory(target);
  EXPECT_NO_THROW(CheckpointManager(serial_group(), link));
}

INSTANTIATE_TEST_SUITE_P(Ranks, RemovedDirectory, testing::Values(1, 3),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace cairn
