// Jobs that are stopped and go on, on any number of ranks, use each sample of an epoch once.
#include "cairn/cursor.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "base/text.hpp"
#include "cairn/redistribute.hpp"
#include "cairn/resizable.hpp"
#include "support/memory_run.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using test::expect_error;
using Used = std::vector<std::pair<std::int64_t, std::int64_t>>;  // epoch and sample

struct Story {
  std::int64_t samples = 0;
  bool ranks_wait = true;  // for each other at the end of an epoch, as in training
  unsigned seeds = 1;
  std::int64_t epochs = 2;
};

// One rank takes batches of any size, some of them ahead, at its own pace.
class Rank {
 public:
  Rank(Cursor& data, const Story& story, unsigned seed)
      : data_(data), story_(story), random_(seed) {}

  Used use(std::int64_t most) {
    Used used;
    while (std::ssize(used) < most && data_.epoch() < story_.epochs) {
      while (ahead_.size() < 3 && data_.left() > 0) {
        ahead_.push_back(data_.take(1 + static_cast<std::int64_t>(random_()) % size()));
      }
      if (!ahead_.empty()) {
        for (const auto one : ahead_.front().samples) used.emplace_back(ahead_.front().epoch, one);
        data_.done(ahead_.front());
        ahead_.pop_front();
      } else if (story_.ranks_wait) {
        break;
      } else {
        data_.next_epoch();
      }
    }
    return used;
  }

 private:
  std::int64_t size() const { return std::max<std::int64_t>(story_.samples / 100, 3); }
  Cursor& data_;
  const Story& story_;
  std::mt19937 random_;
  std::deque<Cursor::Batch> ahead_;
};

std::int64_t stored_bytes(io::FileSystem& files, const io::Path& prefix, std::string_view key) {
  const auto contents = read_contents(files, prefix);
  std::int64_t bytes = 0;
  for (const auto& tensor : contents.tensors) {
    if (tensor.key != key) continue;
    for (const auto& slice : tensor.slices) bytes += slice.stored_bytes;
  }
  EXPECT_GT(bytes, 0);
  return bytes;
}

class Jobs {
 public:
  Jobs(const Story& story, unsigned seed) : story_(story), random_(seed) {
    for (std::int64_t e = 0; e < story.epochs; ++e) {
      times_.emplace_back(static_cast<std::size_t>(story.samples));
    }
  }

  // Runs a job that is killed some time after its last save.
  void go_on() {
    constexpr int counts[]{1, 2, 3, 5, 7};
    const int ranks = counts[random_() % 5];
    const auto saves = 1 + random_() % 3;
    const auto seed = static_cast<unsigned>(random_());
    const auto before = step_;
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      Cursor data(story_.samples, {.seed = before == 0 ? 42u : 43u,  // that of the first counts
                                   .rank = group->rank(),
                                   .ranks = ranks});
      State state;
      state.add("data", data);
      manager.restore_latest(state);
      std::mt19937 random(seed + static_cast<unsigned>(group->rank()));
      Rank rank(data, story_, seed + 7 * static_cast<unsigned>(group->rank()));
      const auto some = [&] {
        return static_cast<std::int64_t>(random()) % (story_.samples / (2 * ranks) + 2);
      };
      for (std::uint64_t i = 1; i <= saves; ++i) {
        const auto used = rank.use(random() % 5 == 0 ? 0 : some());
        const auto prefix = manager.save(before + static_cast<std::int64_t>(i), state);
        note(used);
        if (group->rank() == 0) check_size(prefix);
        if (group->rank() == 0) step_ = before + static_cast<std::int64_t>(i);
        if (!story_.ranks_wait) continue;
        std::int64_t left[]{data.left() + data.waiting()};
        group->all_reduce(left, Group::Op::sum);
        if (left[0] == 0) data.next_epoch();
      }
      rank.use(some());  // of no effect
    });
    ++jobs_;
  }

  bool is_over() const { return used_ >= story_.epochs * story_.samples; }
  int jobs() const { return jobs_; }
  const std::vector<std::vector<std::uint8_t>>& all_times() const { return times_; }

 private:
  void note(const Used& used) {
    const std::lock_guard lock(mutex_);
    for (const auto& [epoch, sample] : used) {
      ++times_[static_cast<std::size_t>(epoch)][static_cast<std::size_t>(sample)];
    }
    used_ += std::ssize(used);
  }
  // Checks the size: each rank adds its place, beside the part that all have in common.
  void check_size(const io::Path& prefix) {
    if (!story_.ranks_wait) return;
    auto& files = *options_.write.file_system;
    EXPECT_LE(stored_bytes(files, prefix, "data/deal") + 8, 64);
  }

  const Story story_;
  std::mt19937 random_;
  ManagerOptions options_ = test::on_disk();
  std::mutex mutex_;
  std::vector<std::vector<std::uint8_t>> times_;  // by epoch and sample
  std::int64_t step_ = 0, used_ = 0;
  int jobs_ = 0;
};

class CursorJobs : public testing::TestWithParam<Story> {};

TEST_P(CursorJobs, UseEachSampleOnceAnEpoch) {
  for (unsigned seed = 0; seed < GetParam().seeds; ++seed) {
    Jobs job(GetParam(), seed);
    while (!job.is_over() && job.jobs() < 200) job.go_on();
    EXPECT_TRUE(job.is_over()) << "seed " << seed;
    EXPECT_GT(job.jobs(), 1);
    for (const auto& epoch : job.all_times()) {
      ASSERT_EQ(std::count(epoch.begin(), epoch.end(), 1), GetParam().samples) << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stories, CursorJobs,
                         testing::Values(Story{1'000'000, true}, Story{1'000'000, false},
                                         Story{1000, true, 4}, Story{1000, false, 4},
                                         Story{5, true, 4, 4}, Story{5, false, 4, 4}),
                         [](const auto& info) {
                           return cat(info.param.samples,
                                      info.param.ranks_wait ? "_in_step" : "_at_any_pace");
                         });

class CursorRestore : public ::testing::Test {
 protected:
  template <class F>
  void job(int ranks, F&& body) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      body(manager, *group);
    });
  }
  ManagerOptions options_ = test::on_disk();
};

TEST_F(CursorRestore, GoesOnInTheSameOrderOnAsManyRanks) {
  job(3, [](CheckpointManager& manager, Group& group) {
    constexpr std::int64_t samples = 1000;
    const CursorOptions options{.seed = 5, .rank = group.rank(), .ranks = 3};
    Cursor undisturbed(samples, options);
    auto before = std::make_unique<Cursor>(samples, options);
    for (std::int64_t step = 1; step <= 60; ++step) {
      if (before->left() == 0) before->next_epoch();
      if (undisturbed.left() == 0) undisturbed.next_epoch();
      const auto count = 7 * (group.rank() + 1);
      const auto wanted = undisturbed.take(count), found = before->take(count);
      ASSERT_EQ(found.samples, wanted.samples);
      ASSERT_EQ(found.epoch, wanted.epoch);
      before->done(found);
      if (step % 7 != 0) continue;
      before->take(50);  // and it is killed
      State state;
      state.add("data", *before);
      manager.save(step, state);
      auto after = std::make_unique<Cursor>(samples, options);
      State restored;
      restored.add("data", *after);
      manager.restore_latest(restored);
      before = std::move(after);
    }
  });
}

TEST_F(CursorRestore, HasTheSameBatchesOnAllRanks) {
  const auto in_step = [&](int ranks, std::int64_t step, std::int64_t most) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks)), lasts = counts;
    job(ranks, [&](CheckpointManager& manager, Group& group) {
      Cursor data(1003, {.rank = group.rank(), .ranks = ranks});
      State state;
      state.add("data", data);
      manager.restore_latest(state);
      const auto at = static_cast<std::size_t>(group.rank());
      counts[at] = data.batches(16);
      for (std::int64_t i = 0; i < std::min(counts[at], most); ++i) data.done(data.take(16));
      lasts[at] = data.left();
      manager.save(step, state);
    });
    EXPECT_THAT(counts, Each(counts[0]));
    if (most >= counts[0]) EXPECT_THAT(lasts, Each(0));
    return counts[0];
  };
  EXPECT_EQ(in_step(3, 1, 5), 21);   // of 335 samples
  EXPECT_EQ(in_step(3, 2, 4), 16);   // of 255
  EXPECT_EQ(in_step(7, 3, 3), 6);    // 571 samples are left, 82 each
  EXPECT_EQ(in_step(7, 4, 100), 3);  // 82 less 48
  EXPECT_EQ(in_step(2, 5, 100), 0);
}

// The loop of the documentation page and the header.
TEST_F(CursorRestore, ServesATrainingLoop) {
  constexpr std::int64_t samples = 100, epochs = 2;
  std::vector<int> times(2 * samples);
  std::mutex mutex;
  for (const int size : {3, 2, 4}) {
    run_threads(size, [&](std::shared_ptr<Group> ranks) {
      CheckpointManager manager(ranks, "/run", options_);
      std::int64_t step = 0;
      State state;
      state.add("step", step);
      Cursor data(samples, {.seed = 7, .rank = ranks->rank(), .ranks = size});
      std::int64_t turns = 0;
      const auto is_stopped = [&] { return ++turns == 4 && size < 4; };
      const auto train = [&](const std::vector<std::int64_t>& batch) {
        const std::lock_guard lock(mutex);
        for (const auto one : batch)
          ++times[static_cast<std::size_t>(data.epoch() * samples + one)];
      };
      // clang-format off
      state.add("data", data);
      manager.restore_latest(state);
      for (; data.epoch() < epochs; data.next_epoch()) {
        for (auto batches = data.batches(8); batches > 0; --batches) {
          const auto batch = data.take(8);
          train(batch.samples);  // of some ranks empty in the last turn
          data.done(batch);
          manager.save(++step, state);
          if (is_stopped()) return;
        }
      }
      // clang-format on
    });
  }
  EXPECT_THAT(times, Each(1));
}

TEST_F(CursorRestore, OneStreamForAllRanks) {
  std::vector<std::int64_t> first;
  job(3, [&](CheckpointManager& manager, Group& group) {
    Cursor data(100, {.seed = 4});
    State state;
    state.add("data", data);
    data.done(data.take(30));
    manager.save(1, state);
    const auto rest = data.take(100).samples;
    if (group.rank() == 0) first = rest;
  });
  job(2, [&](CheckpointManager& manager, Group&) {
    Cursor data(100, {.seed = 4});
    State state;
    state.add("data", data);
    manager.restore_latest(state);
    EXPECT_EQ(data.take(100).samples, first);
  });
}

TEST_F(CursorRestore, TheSavedSeedAndOrderCount) {
  job(1, [](CheckpointManager& manager, Group&) {
    Cursor data(10, {.seed = 4, .shuffle = false}), other(10, {.seed = 5});
    State state, to;
    state.add("data", data);
    to.add("data", other);
    data.done(data.take(3));
    manager.save_async(1, state);
    data.done(data.take(3));  // after the copy
    manager.wait();
    const auto taken = other.take(2);
    manager.restore_latest(to);
    EXPECT_EQ(other.seed(), 4u);
    EXPECT_FALSE(other.shuffle());
    expect_error(Code::invalid_argument, test::Says("what was taken before a restore is not"),
                 [&] { other.done(taken); });
    EXPECT_THAT(other.take(100).samples, ElementsAre(3, 4, 5, 6, 7, 8, 9));
  });
}

TEST_F(CursorRestore, RefusesOtherSamplesAndStaysAsItWas) {
  job(2, [](CheckpointManager& manager, Group& group) {
    Cursor data(10, {.rank = group.rank(), .ranks = 2});
    State state;
    state.add("train/data", data);
    manager.save(1, state);
  });
  job(3, [](CheckpointManager& manager, Group& group) {
    Cursor data(12, {.seed = 6, .shuffle = false, .rank = group.rank(), .ranks = 3});
    data.done(data.take(1));
    State state;
    state.add("train/data", data);
    expect_error(Code::invalid_argument,
                 AllOf(HasSubstr("train/data"),
                       test::Says("a cursor over 12 samples is restored from one over 10")),
                 [&] { manager.restore_latest(state); });
    EXPECT_EQ(data.seed(), 6u);
    EXPECT_EQ(data.left(), 3);
  });
}

TEST_F(CursorRestore, FallsBackToAnOlderOneAndMayBeMissing) {
  job(2, [](CheckpointManager& manager, Group& group) {
    double other = 0;
    Cursor data(10, {.rank = group.rank(), .ranks = 2});
    data.done(data.take(2));
    State without, state;
    without.add("other", other);
    state.add("other", other).add("data", data);
    manager.save(1, without);
    manager.restore_latest(state, {.may_be_missing = {"data/deal", "data/done"}});
    EXPECT_EQ(data.left(), 3);
    expect_error(Code::not_found, HasSubstr("data/deal"), [&] { manager.restore_latest(state); });
  });
}

TEST_F(CursorRestore, MayHaveTwoKeys) {
  job(1, [](CheckpointManager& manager, Group&) {
    Cursor data(10, {.shuffle = false});
    State state;
    state.add("data", data).add("same", data);
    data.done(data.take(2));
    manager.save(1, state);
    data.done(data.take(2));
    manager.restore(1, state);
    EXPECT_THAT(data.take(1).samples, ElementsAre(2));
  });
}

TEST_F(CursorRestore, GoesFromMemoryToMemory) {
  run_threads(3, [](std::shared_ptr<Group> group) {
    const int rank = group->rank();
    Cursor from(30, {.shuffle = false, .rank = rank, .ranks = 3}), to(30);
    from.done(from.take(rank + 1));
    State source, target;
    source.add("data", from);
    target.add("data", to);
    redistribute(group, source, target);
    EXPECT_EQ(to.left(), 30 - 6);
    EXPECT_THAT(to.take(10).samples, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 12));
  });
}

TEST_F(CursorRestore, RefusesStoredPlacesThatDoNotFit) {
  job(1, [](CheckpointManager& manager, Group&) {
    std::vector<std::uint8_t> deal{1, 0, 0, 0, 0, 0, 0, 0, 0, 10, 2, 0, 0};
    std::vector<std::int64_t> done{4};
    State state;
    state.add("data/deal", resizable(deal)).add("data/done", resizable(done));
    manager.save(1, state);
    Cursor data(10);
    State to;
    to.add("data", data);
    expect_error(Code::data_loss, AllOf(HasSubstr("data/done"), test::Says("the places of 1")),
                 [&] { manager.restore(1, to); });
  });
}

}  // namespace
}  // namespace cairn
