// Storage that stops answering at any operation of a save, for a while or for ever: all ranks get
// one verdict, the older checkpoint is whole, and the manager works again when the storage does.
#include <semaphore>
#include <thread>

#include "base/text.hpp"
#include "io/limited.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "support/crash_story.hpp"
#include "support/debris.hpp"
#include "support/forwarding_files.hpp"
#include "support/other_host.hpp"
#include "support/rounds.hpp"

namespace cairn {
namespace {

struct Silence {
  std::string name;
  int ranks;
  Format format = Format::bundle;
  bool async = false, for_ever = false;
};
void PrintTo(const Silence& silence, std::ostream* out) { *out << silence.name; }

class StorageLimit : public testing::TestWithParam<Silence> {
 protected:
  StorageLimit() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~StorageLimit() override { set_log_sink({}); }

  ManagerOptions options(std::shared_ptr<io::FileSystem> files) const {
    ManagerOptions options;
    options.write.file_system = std::move(files);
    options.keep.last = 2;
    options.write.owner_wait_seconds = 0;
    options.write.chunk_bytes = 4096;
    options.store.format = GetParam().format;
    return options;
  }

  // The storage stops answering at this operation of the save of step 20. Returns false if the save
  // has fewer.
  bool round(std::size_t at) {
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    // A lock that is held by an operation that never came back must not keep others in this process
    // out.
    const auto raw = std::make_shared<test::OtherHost>(disk, test::OtherHost::Locks::granted);
    const auto limited = io::limited(raw, 1e6);
    std::counting_semaphore<> answers(0);
    std::atomic<std::size_t> operations = 0;
    std::atomic<bool> counts = false, silent = false;
    disk->set_observer([&](const std::string&) {
      if (!counts || operations++ != at) return;
      silent = true;
      limited->give_up();
      answers.acquire();
    });
    std::vector<std::string> verdicts(static_cast<std::size_t>(GetParam().ranks));
    std::int64_t stamp_after = 0;
    run_threads(GetParam().ranks, [&](std::shared_ptr<Group> group) {
      {
        StoryJob job(group, options(limited), GetParam().ranks);
        job.async = GetParam().async;
        job.save(10, 1);
        job.manager.wait();
        group->barrier();
        counts = true;
        auto& verdict = verdicts[static_cast<std::size_t>(group->rank())];
        try {
          job.save(20, 2);
          job.manager.wait();
        } catch (const Error& error) {
          verdict = error.what();
        }
        group->barrier();
        counts = false;
        if (group->rank() == 0) look(raw, verdict.empty());
        if (GetParam().for_ever) return;
        if (group->rank() == 0 && silent) {
          answers.release();
          limited->wait_until_back();
        }
        group->barrier();
        job.save(30, 3);
        job.manager.wait();
      }
      group->barrier();
    });
    for (const auto& verdict : verdicts) EXPECT_EQ(verdict, verdicts.front());
    if (GetParam().for_ever) {
      answers.release();  // the thread ends with the test
      limited->wait_until_back();
    }
    disk->set_observer({});
    StoryJob next(serial_group(), options(raw), GetParam().ranks);
    const auto report = next.manager.restore_latest(next.state);
    EXPECT_TRUE(report && report->skipped.empty());
    stamp_after = next.stamp;
    if (!GetParam().for_ever) {
      EXPECT_EQ(stamp_after, 3);
    } else {
      EXPECT_TRUE(stamp_after == 1 || stamp_after == 2) << stamp_after;
    }
    for (const auto value : next.row) EXPECT_EQ(value, static_cast<double>(stamp_after));
    EXPECT_EQ(debris(*disk, next.manager.steps(),
                     [&](std::int64_t step) { return next.manager.open(step); }),
              "");
    return silent;
  }

  // What other processes see while the owner's storage does not answer.
  void look(std::shared_ptr<io::FileSystem> files, bool saved) {
    auto reading = options(files);
    reading.read_only = true;
    StoryJob reader(serial_group(), reading, GetParam().ranks);
    const auto report = reader.manager.restore_latest(reader.state);
    ASSERT_TRUE(report && report->skipped.empty());
    EXPECT_TRUE(reader.stamp == 2 || (!saved && reader.stamp == 1)) << reader.stamp;
  }
};

TEST_P(StorageLimit, OneVerdictWhereverItFallsSilent) {
  if (GetParam().format == Format::hdf5 && !hdf5::available()) GTEST_SKIP() << "without libhdf5";
  std::size_t at = 0, rounds = 0;
  for (; round(at) && !HasFailure(); at += test::sanitized ? 9 : 2) ++rounds;
  std::cout << "[ STATES   ] " << rounds << " operations\n";
}

// Whoever waits on its own thread waits without limit.
TEST(StorageLimitOption, KeepsTheCallersThreadFromTheStorage) {
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = disk;
  options.write.storage_limit_seconds = 1e6;
  std::atomic<int> all = 0, of_the_caller = 0;
  disk->set_observer([&, caller = std::this_thread::get_id()](const std::string&) {
    ++all;
    of_the_caller += std::this_thread::get_id() == caller;
  });
  double value = 1;
  State state;
  state.add("value", value);
  CheckpointManager(serial_group(), "/run", options).save(1, state);
  disk->set_observer({});
  EXPECT_GT(all, 0);
  EXPECT_EQ(of_the_caller, 0);
}

// Storage that does not answer some operations, one after another.
class SilentAt : public test::ForwardingFiles {
 public:
  SilentAt(std::shared_ptr<io::FileSystem> files, std::size_t at, std::size_t count)
      : ForwardingFiles(std::move(files)), at_(at), count_(count) {}
  bool was_silent() const { return operations_ > at_; }

 protected:
  void around(const char* kind, const io::Path& path, bool,
              const std::function<void()>& operation) override {
    const auto number = operations_++;
    const bool is_silent = number >= at_ && number - at_ < count_;
    if (is_silent) throw Error(Code::unavailable, kind).at(path.string());
    operation();
  }

 private:
  const std::size_t at_, count_;
  std::atomic<std::size_t> operations_ = 0;
};

class SilentStorage : public testing::TestWithParam<std::tuple<Format, std::size_t>> {
 protected:
  SilentStorage() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~SilentStorage() override { set_log_sink({}); }
};

// No step is passed over for that, also none that is written but not committed.
TEST_P(SilentStorage, IsTheErrorOfARestoreOnAllRanks) {
  const auto [format, count] = GetParam();
  if (format == Format::hdf5 && !hdf5::available()) GTEST_SKIP() << "without libhdf5";
  const auto options_of = [format = format](std::shared_ptr<io::FileSystem> files) {
    ManagerOptions options;
    options.write.file_system = std::move(files);
    options.keep.last = 0;
    options.write.owner_wait_seconds = 0;
    options.write.chunk_bytes = 4096;
    options.store.format = format;
    options.async.queue = inline_queue();
    return options;
  };
  constexpr int ranks = 2;
  bool was_silent = true;
  for (std::size_t at = 0; was_silent && !HasFailure(); at += test::sanitized ? 9 : 1) {
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      StoryJob job(group, options_of(disk), ranks);
      job.save(10, 1);
      job.save(20, 2);
      job.async = std::get<Format>(GetParam()) == Format::bundle;
      job.save(30, 3);
    });
    const auto files = std::make_shared<SilentAt>(disk, at, count);
    std::array<std::string, ranks> verdicts;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      auto& verdict = verdicts.at(static_cast<std::size_t>(group->rank()));
      try {
        StoryJob job(group, options_of(files), ranks);
        const auto report = job.manager.restore_latest(job.state);
        verdict = cat("step ", report ? report->step : -1);
      } catch (const Error& error) {
        verdict = error.what();
        const bool is_it = error.code() == Code::unavailable;
        EXPECT_TRUE(is_it || error.code() == Code::durability_unknown) << error.what();
        return;
      }
      EXPECT_EQ(verdict, "step 30") << "operation " << at;
    });
    EXPECT_EQ(verdicts[0], verdicts[1]);
    was_silent = files->was_silent();
    StoryJob next(serial_group(), options_of(disk), ranks);
    const auto report = next.manager.restore_latest(next.state);
    EXPECT_EQ(report ? report->step : -1, 30) << "operation " << at;
    EXPECT_TRUE(report && report->skipped.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SilentStorage,
                         testing::Combine(testing::Values(Format::bundle, Format::hdf5),
                                          testing::Values(std::size_t{1}, std::size_t{12})),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param) == Format::bundle ? "bundle" : "hdf5",
                                      "_", std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(All, StorageLimit,
                         testing::Values(Silence{"one_rank", 1}, Silence{"three_ranks", 3},
                                         Silence{"one_file", 2, Format::hdf5},
                                         Silence{"for_ever", 2, Format::bundle, false, true},
                                         Silence{"asynchronous", 2, Format::bundle, true},
                                         Silence{"asynchronous_for_ever", 1, Format::bundle, true,
                                                 true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cairn
