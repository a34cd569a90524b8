// Readers beside a job on another node, which saves, replaces and removes steps at each single
// operation of the reader. What it lets go meanwhile is no damage, and what counts is found.
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cli/target.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/directory/catalog.hpp"
#include "support/knowing_node.hpp"
#include "support/rounds.hpp"
#include "testing/memory.hpp"
#include "tools/verify_beside.hpp"

namespace cairn::test {
namespace {

constexpr std::size_t length = 1000;
std::string words_of(std::int64_t step) { return std::string(100, 'w') + cat(step); }

// A job that keeps few. Each save has another value, by which a reader proves which save it has.
class BusyJob {
 public:
  BusyJob(std::shared_ptr<io::FileSystem> disk, int keep_last, Format format) {
    ManagerOptions options;
    options.write.file_system = std::move(disk);
    options.store.format = format;
    options.keep.last = keep_last;
    options.overwrite = true;
    manager_ = std::make_unique<CheckpointManager>(serial_group(), "/run", options);
  }
  void save(std::int64_t step) {
    values_.assign(length, static_cast<double>(++saves_));
    State state;
    state.add("step", step);
    state.add("u", values_);
    std::string words = words_of(step);
    state.add("words", words);
    manager_->save(step, state);
    saved_[step].insert(saves_);
  }
  bool has_saved(std::int64_t step, int value) const {
    const auto at = saved_.find(step);
    return at != saved_.end() && at->second.contains(value);
  }
  int saves() const { return saves_; }

 private:
  std::unique_ptr<CheckpointManager> manager_;
  std::vector<double> values_;
  std::map<std::int64_t, std::set<int>> saved_;
  int saves_ = 0;
};

// What the job does meanwhile: the first time, and each time after so many further operations.
struct Story {
  std::string name;
  std::vector<std::int64_t> saves;  // of each time; 0: the next step
  int keep_last = 2;
  Format format = Format::bundle;
  std::size_t again_after = 0;
};
struct Case {
  Story story;
  bool knows = false;
  int number = 0;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.story.name; }

// One directory, a job, and a reader's node.
class Together {
 public:
  Together(const Case& one, std::size_t when)
      : story_(one.story), job_(disk_, story_.keep_last, story_.format) {
    for (const int step : {2, 3, 4}) job_.save(step);
    next_ = 5;
    node_ = std::make_shared<KnowingNode>(disk_, one.knows, [this, when](const std::string& what) {
      const auto now = operations_++;
      if (now < when) return;
      const auto later = now - when;
      if (later != 0 && (story_.again_after == 0 || later % story_.again_after != 0)) return;
      if (later == 0) where_ = what;
      for (const auto step : story_.saves) job_.save(step > 0 ? step : next_++);
    });
  }
  const std::shared_ptr<KnowingNode>& node() const { return node_; }
  Address directory() const { return {node_, "/run"}; }
  const BusyJob& job() const { return job_; }
  std::size_t operations() const { return operations_; }
  const std::string& where() const { return where_; }
  bool has_now(std::int64_t step) const {
    return has_checkpoint({disk_, io::Path("/run") / cat("ckpt-", step)});
  }
  ManagerOptions reading() const {
    ManagerOptions options;
    options.write.file_system = node_;
    options.read_only = true;
    return options;
  }

 private:
  const Story& story_;
  const std::shared_ptr<io::FileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  BusyJob job_;
  std::shared_ptr<KnowingNode> node_;
  std::int64_t next_ = 0;
  std::size_t operations_ = 0;
  std::string where_;
};

// What a reader fills.
struct Filled {
  std::int64_t step = 0;
  std::vector<double> values = std::vector<double>(length);
  std::string words;
  State state;
  Filled() {
    state.add("step", step);
    state.add("u", values);
    state.add("words", words);
  }
  void expect_one_save_of(const BusyJob& job) const {
    const std::set<double> all(values.begin(), values.end());
    ASSERT_EQ(all.size(), 1u);
    EXPECT_TRUE(job.has_saved(step, static_cast<int>(*all.begin()))) << step << " " << *all.begin();
    EXPECT_EQ(words, words_of(step));
  }
};

// Each case tries each seventh operation, from another first one; all with CAIRN_ALL_STATES=1.
class ReadersBesideAJob : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().story.format == Format::hdf5 && !hdf5::available()) GTEST_SKIP();
    set_log_sink([](LogLevel, std::string_view) {});
  }
  void TearDown() override { set_log_sink({}); }

  template <class Read>
  static void at_any_operation(Read read) {
    const auto test = testing::UnitTest::GetInstance()->current_test_info()->line();
    const auto stride = state_step(7, 29);
    auto when = static_cast<std::size_t>(test + GetParam().number) % stride;
    for (std::size_t operations = stride; when < operations; when += stride) {
      Together beside(GetParam(), when);
      SCOPED_TRACE(cat("before operation ", when));
      try {
        read(beside);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
      operations = beside.operations();
      ASSERT_FALSE(HasFailure()) << "beside, before: " << beside.where();
      if (GetParam().story.again_after > 0 && when > GetParam().story.again_after) break;
    }
  }
};

TEST_P(ReadersBesideAJob, ListNothingAsDamaged) {
  at_any_operation([](const Together& beside) {
    const auto least = beside.job().saves();
    const auto seen = beside.directory();
    EXPECT_EQ(names_of(list_prefixes(seen)), std::set<std::string>{"ckpt"});
    const auto catalog = scan_catalog(location_of(seen, commit::Naming("ckpt")));
    for (const auto& one : catalog) EXPECT_EQ(one.damage, "") << one.step;
    ASSERT_FALSE(restorable(catalog).empty());
    EXPECT_GE(restorable(catalog).front()->save.sequence, least);
  });
}

TEST_P(ReadersBesideAJob, VerifyNothingAsDamaged) {
  at_any_operation([](const Together& beside) {
    const auto seen = beside.directory();
    for (const auto& prefix : checkpoints_beside(seen)) {
      const auto found = verify_beside(seen, prefix);
      if (!found) continue;
      for (const auto& one : found->checked.findings) {
        EXPECT_EQ(one.kind, Finding::Kind::note) << prefix.string() << ": " << one.what;
      }
    }
  });
}

TEST_P(ReadersBesideAJob, RestoreTheNewest) {
  at_any_operation([](const Together& beside) {
    Filled filled;
    CheckpointManager manager(serial_group(), "/run", beside.reading());
    const auto least = beside.job().saves();
    const auto report = manager.restore_latest(filled.state);
    ASSERT_TRUE(report);
    EXPECT_GE(filled.values.front(), least);
    EXPECT_EQ(report->step, filled.step);
    EXPECT_TRUE(report->skipped.empty()) << report->skipped.front();
    filled.expect_one_save_of(beside.job());
  });
}

// A step that is asked for and goes meanwhile is not there any more, and not damaged.
TEST_P(ReadersBesideAJob, RestoreTheStepThatTheyAskFor) {
  for (const std::int64_t step : {3, 4}) {
    at_any_operation([&](const Together& beside) {
      Filled filled;
      CheckpointManager manager(serial_group(), "/run", beside.reading());
      try {
        manager.restore(step, filled.state);
        EXPECT_EQ(filled.step, step);
        filled.expect_one_save_of(beside.job());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::not_found) << error.what();
        EXPECT_FALSE(beside.has_now(step)) << error.what();
      }
    });
  }
}

TEST_P(ReadersBesideAJob, ReadWhatADirectoryNames) {
  at_any_operation([](const Together& beside) {
    const auto step = cli::with_checkpoint(beside.directory(), [&](const Address& prefix) {
      const auto open = open_checkpoint(prefix, Graph::read);
      for (const auto& tensor : open->tensors) {
        for (const auto& slice : tensor.slices) open.read(tensor, slice);
      }
      return open->meta.value().step;
    });
    EXPECT_GE(step, 1);
  });
}

std::vector<Case> cases() {
  const std::vector<Story> stories{
      {"new_steps", {0, 0}},
      {"many_new_steps", {0, 0, 0, 0, 0}},
      {"only_step", {0, 0}, 1},
      {"same_step", {4}},
      {"older_step", {3}},
      {"same_step_twice", {4, 4}},
      {"again_and_again", {0}, 2, Format::bundle, 40},
      {"hdf5", {0, 0}, 1, Format::hdf5},
      {"hdf5_same_step", {4}, 2, Format::hdf5},
  };
  std::vector<Case> all;
  for (const auto& story : stories) {
    for (const bool knows : {false, true}) {
      all.push_back({story, knows, static_cast<int>(all.size())});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ReadersBesideAJob, testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.story.name + (info.param.knows ? "_known_names" : "");
});

}  // namespace
}  // namespace cairn::test
