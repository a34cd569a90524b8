// Faults on an io rank, on a rank that it serves, or between the two: all ranks get one error,
// nothing hangs, and earlier checkpoints are whole.
#include <gmock/gmock.h>

#include "cairn/log.hpp"
#include "session/save/io_ranks_kit.hpp"
#include "support/group_around.hpp"
#include "support/group_kit.hpp"
#include "support/reluctant.hpp"

namespace cairn {
namespace {

using test::on_ranks;
using test::Reluctant;
using test::WatchedDisk;
using ::testing::HasSubstr;

constexpr std::int64_t row_length = 3000;

// Flips a bit of a message that arrives.
class NoisyGroup : public test::GroupAround {
 public:
  using GroupAround::GroupAround;
  void exchange(std::span<const Send> sends, std::span<const Receive> receives) override {
    GroupAround::exchange(sends, receives);
    if (noise && !receives.empty()) receives.front().bytes[7] ^= std::byte{4};
  }

  bool noise = false;
};

// Four ranks, of which two are io ranks: rank 0 writes for 0 and 1, rank 2 for 2 and 3.
/// The parameter chooses blocking saves, or asynchronous ones that are waited for.
class IoRanksFaults : public ::testing::TestWithParam<bool> {
 protected:
  struct Rank {
    const bool in_background = GetParam();
    std::shared_ptr<NoisyGroup> group;
    CheckpointManager manager;
    std::vector<double> row;
    std::shared_ptr<Reluctant> memory;
    State state;

    Rank(std::shared_ptr<Group> g, const ManagerOptions& options)
        : group(std::make_shared<NoisyGroup>(g)),
          manager(group, "/run", options),
          row(static_cast<std::size_t>(row_length)),
          memory(std::make_shared<Reluctant>(row.data(), Dims{1, row_length})) {
      auto tensor = slice(row.data(), {4, row_length}, {g->rank(), 0}, {1, row_length});
      tensor.slices.front().memory = memory;
      state.add("u", std::move(tensor));
    }
    void save(std::int64_t step) {
      std::fill(row.begin(), row.end(), static_cast<double>(10 * step + group->rank()));
      if (!in_background) {
        manager.save(step, state);
        return;
      }
      manager.save_async(step, state);
      std::fill(row.begin(), row.end(), -2.0);
      manager.wait();
    }
    // Checks that a restore gives the elements of this step.
    void expect_newest(std::int64_t step) {
      std::fill(row.begin(), row.end(), -1.0);
      ASSERT_TRUE(manager.restore_latest(state));
      EXPECT_THAT(row, ::testing::Each(static_cast<double>(10 * step + group->rank())));
    }
  };

  IoRanksFaults() {
    set_log_sink([](LogLevel, std::string_view) {});
    options.write.file_system = disk;
    options.write.chunk_bytes = 4096;
    options.write.io_ranks = IoRanks::count(2);
    options.write.io_ranks.memory_bytes = 4096;
    options.write.part_records = true;
  }
  ~IoRanksFaults() override { set_log_sink({}); }

  // A good save, one that fails, another good one.
  template <class Break, class Mend>
  void fail_a_save(Code code, const std::string& text, Break&& break_it, Mend&& mend) {
    on_ranks(4, 0, [&](auto group) {
      Rank mine(group, options);
      mine.save(1);
      group->barrier();
      break_it(mine);
      group->barrier();
      test::expect_error([&] { mine.save(2); }, code, HasSubstr(text));
      group->barrier();
      mend(mine);
      group->barrier();
      mine.expect_newest(1);
      mine.save(3);
      mine.expect_newest(3);
    });
  }

  std::shared_ptr<WatchedDisk> disk = std::make_shared<WatchedDisk>();
  ManagerOptions options;
};

TEST_P(IoRanksFaults, AWriteOfAnIoRankFails) {
  struct Case {
    Storage storage;
    const char *kind, *file;
    std::size_t skip;
  };
  // Rank 0 writes its own file 0 and file 1, rank 2 the others; or they share a dense file.
  for (const auto& one : {Case{Storage::sliced, "write", "part-00000", 0},
                          Case{Storage::sliced, "create", "part-00001", 0},
                          Case{Storage::sliced, "write", "part-00001", 0},
                          Case{Storage::sliced, "write", "part-00003", 4},
                          Case{Storage::sliced, "sync", "part-00003", 0},
                          Case{Storage::sliced, "write", "record-0-00001", 0},
                          Case{Storage::dense, "write", "part-00000", 5},
                          Case{Storage::dense, "sync", "part-00000", 1}}) {
    SCOPED_TRACE(cat(one.kind, " ", one.file, " ", one.skip));
    disk = std::make_shared<WatchedDisk>();
    options.write.file_system = disk;
    // An asynchronous save writes a file in one operation.
    const auto skip = GetParam() && one.storage == Storage::sliced ? 0 : one.skip;
    const auto break_it = [&](Rank& mine) {
      mine.state.store(one.storage);
      if (mine.group->rank() == 1) disk->inject({Code::io, one.kind, one.file, skip, 1});
    };
    fail_a_save(Code::io, one.file, break_it, [](Rank&) {});
  }
}

TEST_P(IoRanksFaults, TheMemoryOfARankThatIsServedFails) {
  for (const int bad : {1, 3}) {
    disk = std::make_shared<WatchedDisk>();
    options.write.file_system = disk;
    fail_a_save(
        Code::io, "the device is gone",
        [&](Rank& mine) {
          mine.memory->reads = 0;
          mine.memory->refuses = mine.group->rank() == bad;
        },
        [](Rank& mine) { mine.memory->refuses = false; });
  }
}

TEST_P(IoRanksFaults, BytesThatChangeOnTheWayAreNoticed) {
  fail_a_save(
      Code::data_loss, "bytes of tensor 'u' changed on their way from rank 3 to its io rank 2",
      [](Rank& mine) { mine.group->noise = mine.group->rank() == 2; },
      [](Rank& mine) { mine.group->noise = false; });
}

TEST_P(IoRanksFaults, AReadOfAnIoRankFails) {
  options.restore.fall_back = false;
  on_ranks(4, 0, [&](auto group) {
    Rank mine(group, options);
    mine.save(1);
    group->barrier();
    if (group->rank() == 3) disk->inject({Code::io, "read", ".data-00003", 2, 1});
    group->barrier();
    const auto error = test::error_of([&] { mine.manager.restore(1, mine.state); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr(".data-00003"));
    EXPECT_EQ(error->rank(), 2);
    group->barrier();
    mine.expect_newest(1);
  });
}

INSTANTIATE_TEST_SUITE_P(Saves, IoRanksFaults, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "asynchronous" : "blocking"; });

}  // namespace
}  // namespace cairn
