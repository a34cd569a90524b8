// A save that lacks room removes what retention lets go, and nothing else, after a checkpoint that
// stays was read.
#include <gmock/gmock.h>

#include <atomic>
#include <mutex>

#include "base/text.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "support/forwarding_files.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"
#include "support/sharing_group.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A quota that the file system does not report.
class Quota : public test::ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  std::int64_t free_bytes(const io::Path&) override { return std::int64_t{1} << 40; }
};

constexpr std::int64_t checkpoint_bytes = 1 << 20, slack_bytes = 4 << 20;
constexpr std::int64_t too_little = checkpoint_bytes / 2;

class Room : public testing::TestWithParam<int> {
 protected:
  Room() {
    set_log_sink([this](LogLevel level, std::string_view text) {
      const std::lock_guard guard(mutex_);
      if (level >= LogLevel::warning) log_ += cat(text, '\n');
    });
    options_.write.owner_wait_seconds = 0;
    options_.async.queue = inline_queue();
    options_.restore.fall_back = true;
  }
  ~Room() override { set_log_sink({}); }

  struct Rank {
    std::shared_ptr<Group> group;
    CheckpointManager manager;
    std::vector<double> values;
    std::vector<std::string> words{"", "of the step"};
    State state;
    Rank(std::shared_ptr<Group> g, const ManagerOptions& options)
        : group(g), manager(g, "/run", options) {
      const std::int64_t all = checkpoint_bytes / 8 / 3 * 3, mine = all / g->size();
      values.resize(static_cast<std::size_t>(mine));
      state.add("values", slice(values.data(), {all}, {g->rank() * mine}, {mine}));
      state.add("words", words);
    }
    void set(std::int64_t step) {
      std::fill(values.begin(), values.end(), static_cast<double>(step));
      words[0] = std::to_string(step);
    }
    void save(std::int64_t step, const SaveOptions& how = {}) {
      set(step);
      manager.save(step, state, how);
    }
    std::vector<std::int64_t> steps() {
      std::vector<std::int64_t> all;
      for (const auto& info : manager.steps()) all.push_back(info.step);
      return all;
    }
    void expect_restored(std::int64_t step) {
      set(-1);
      EXPECT_EQ(manager.restore(step, state).step, step);
      EXPECT_EQ(words[0], std::to_string(step));
      EXPECT_EQ(values, std::vector<double>(values.size(), static_cast<double>(step)));
    }
  };
  template <class F>
  void job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Rank rank(group, options_);
      body(rank);
    });
  }
  // Runs the function on rank 0, while the others wait.
  template <class F>
  static void alone(Rank& rank, F&& function) {
    rank.group->barrier();
    if (rank.group->rank() == 0) function();
    rank.group->barrier();
  }

  // Leaves three checkpoints of a job that kept three, with so many bytes free.
  void fill(std::int64_t free, bool quota = false) {
    disk_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = disk_;
    const auto keep = std::exchange(options_.keep, {.last = 3});
    job([](Rank& rank) {
      for (const std::int64_t step : {10, 20, 30}) rank.save(step);
    });
    options_.keep = keep;
    constexpr std::int64_t large = std::int64_t{1} << 40;
    disk_->set_capacity(large);
    disk_->set_capacity(large - disk_->free_bytes("/") + free);
    if (quota) options_.write.file_system = std::make_shared<Quota>(disk_);
    log_.clear();
  }
  void flip(const std::string& part) {
    for (const auto& name : disk_->list("/run")) {
      if (name.find(part) == name.npos) continue;
      const auto file = disk_->open_write(io::Path("/run") / name);
      std::byte byte;
      file->read_at(file->size() / 2, {&byte, 1});
      byte ^= std::byte{1};
      file->write_at(file->size() / 2, {&byte, 1});
    }
  }

  std::shared_ptr<io::MemoryFileSystem> disk_;
  ManagerOptions options_;
  std::mutex mutex_;
  std::string log_;
};
INSTANTIATE_TEST_SUITE_P(Ranks, Room, testing::Values(1, 3));

// There is room for three checkpoints, which a job kept; the next job is to keep fewer.
TEST_P(Room, WhatIsSurplusGoesBeforeASaveGivesUp) {
  options_.keep.last = 1;
  for (const bool quota : {false, true}) {
    for (const auto format : {Format::bundle, Format::hdf5}) {
      if (format == Format::hdf5 && !hdf5::available()) continue;
      options_.store.format = format;
      SCOPED_TRACE(cat(quota ? "quota " : "disk ", static_cast<int>(format)));
      fill(quota ? too_little : slack_bytes + too_little, quota);
      job([&](Rank& rank) {
        EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30)) << "not at the opening";
        EXPECT_EQ(rank.manager.restore_latest(rank.state)->step, 30);
        EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30));
        rank.save(40);
        EXPECT_THAT(rank.steps(), ElementsAre(40));
        EXPECT_EQ(rank.manager.statistics().failed, 0);
        rank.expect_restored(40);
        rank.save(50);
        EXPECT_THAT(rank.steps(), ElementsAre(50));
      });
      EXPECT_THAT(log_, test::Says("step 40 lacked room: 2 checkpoints"));
    }
  }
}

// A failed asynchronous save cannot be tried again: the next save finds room.
TEST_P(Room, AfterASavePendingHasFailedTheNextOneFindsRoom) {
  options_.keep.last = 1;
  fill(slack_bytes + too_little);
  job([&](Rank& rank) {  // as far as the disk tells it is not begun before
    rank.set(40);
    rank.manager.save_async(40, rank.state);
    rank.manager.wait();
    EXPECT_THAT(rank.steps(), ElementsAre(40));
  });
  fill(too_little, true);
  job([&](Rank& rank) {
    rank.set(40);
    const auto handle = rank.manager.save_async(40, rank.state);
    test::expect_error(Code::no_space, test::Says("has been removed since: save again"),
                       [&] { rank.manager.wait(); });
    EXPECT_EQ(handle.stage(), SaveStage::failed);
    EXPECT_THAT(rank.steps(), ElementsAre(30));
    rank.manager.save_async(50, rank.state);
    rank.manager.wait();
    EXPECT_THAT(rank.steps(), ElementsAre(50));
  });
  // An earlier save's error is reported once, and the next save is not made twice for it.
  options_.keep.last = 3;
  fill(too_little, true);
  job([&](Rank& rank) {
    rank.set(40);
    rank.manager.save_async(40, rank.state);
    test::expect_error(Code::no_space, test::Says("cairn gc /run --max-to-keep N"),
                       [&] { rank.save(40); });
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30));
  });
}

TEST_P(Room, WhatIsNeededStays) {
  const auto left = [&](const std::string& what, const auto& before,
                        const testing::Matcher<std::vector<std::int64_t>>& stays,
                        std::int64_t step = 40) {
    SCOPED_TRACE(what);
    for (const bool quota : {false, true}) {
      fill(too_little, quota);
      job([&](Rank& rank) {
        before(rank);
        // There is too little room in any case.
        alone(rank, [&] { disk_->inject({Code::no_space, "write", "part", 0, 999}); });
        test::expect_error(Code::no_space, test::Says("cairn gc /run --max-to-keep N"),
                           [&] { rank.save(step, {.overwrite = true}); });
        alone(rank, [&] { disk_->clear_faults(); });
        EXPECT_THAT(rank.steps(), stays);
        for (const auto& info : rank.manager.steps()) {
          if (info.damage.empty()) rank.expect_restored(info.step);
        }
      });
    }
  };
  const auto nothing = [](Rank&) {};
  options_.keep.last = 1;
  left("all are whole", nothing, ElementsAre(30));
  left(
      "restored", [](Rank& rank) { rank.expect_restored(10); }, ElementsAre(10, 30));
  left(
      "pinned", [](Rank& rank) { rank.manager.pin(20); }, ElementsAre(20, 30));
  left("it is being saved", nothing, ElementsAre(20, 30), 20);
  const auto damage = [&](const std::string& part) {
    return [&, part](Rank& rank) { alone(rank, [&] { flip(part); }); };
  };
  left("the newest is damaged", damage("ckpt-30.data-00000"), ElementsAre(20, 30));
  left("its strings are", damage(cat("ckpt-30.data-0000", GetParam() - 1, "-of")),
       ElementsAre(20, 30));
  EXPECT_THAT(log_, test::Says("step 30 is damaged"));
  left(
      "all but one are",
      [&](Rank& rank) {
        damage("ckpt-30.data-00000")(rank);
        damage("ckpt-20.data-00000")(rank);
      },
      ElementsAre(10, 20, 30));
  left(
      "it cannot be read now",
      [&](Rank& rank) {
        alone(rank, [&] { disk_->inject({Code::io, "read", "ckpt-30.data-", 0, 99}); });
      },
      ElementsAre(20, 30));
  options_.keep.last = 2;
  left("two are kept", nothing, ElementsAre(20, 30));
  options_.keep.last = 0;
  left("all are", nothing, ElementsAre(10, 20, 30));
}

// MPI-IO reports nothing when others have filled the disk meanwhile: the bytes are missing.
TEST_P(Room, WhatReadingBackFindsMissingOnAFullDiskIsALackOfRoom) {
  fill(std::int64_t{1} << 30);
  options_.keep.last = 1;
  options_.write.writer = Writer::mpi_io;
  options_.write.mpi_io.read_back = true;
  std::atomic<bool> full = true;
  disk_->set_observer([&](const std::string& operation) {
    if (operation.starts_with("remove ") && operation.find("ckpt-10.") != operation.npos) {
      full = false;
      disk_->set_capacity(std::int64_t{1} << 40);
    }
  });
  run_threads(GetParam(), [&](std::shared_ptr<Group> ranks) {
    const auto group = std::make_shared<test::SharingGroup>(ranks, disk_);
    group->after_write = [&](io::File& file, std::int64_t offset, std::size_t bytes) {
      if (!full) return;
      file.write_at(offset, std::vector<std::byte>(bytes));
      disk_->set_capacity(0);
    };
    Rank rank(group, options_);
    rank.save(40);
    EXPECT_THAT(rank.steps(), ElementsAre(40));
    rank.expect_restored(40);
  });
  disk_->set_observer({});
  EXPECT_THAT(log_, test::Says("step 40 lacked room: 2 checkpoints"));
}

TEST_P(Room, TheErrorSaysWhatStaysForEver) {
  options_.keep = {.last = 1, .every_steps = 10};
  fill(too_little);
  job([&](Rank& rank) {
    test::expect_error(Code::no_space,
                       AllOf(HasSubstr("step 40 needs "), test::Says("cairn gc /run --max-to-keep"),
                             test::Says("For ever stay 2 by keep.every_steps = 10."),
                             Not(HasSubstr("every_hours"))),
                       [&] { rank.save(40); });
    EXPECT_THAT(rank.steps(), ElementsAre(10, 20, 30));
  });
  EXPECT_THAT(log_, AllOf(test::Says("has restored none"), Not(test::Says("lacked room"))))
      << "nothing was proved, for nothing would have gone";
}

}  // namespace
}  // namespace cairn
