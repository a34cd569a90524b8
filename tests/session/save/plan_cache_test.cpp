// A plan that serves one save after the other: what such a save costs, and what invalidates the
// plan.
#include <atomic>
#include <cmath>

#include "base/text.hpp"
#include "session/save/plan_cache_kit.hpp"

namespace cairn {
namespace {

TEST_P(PlanCache, OneSumOverRanksBeforeTheBytesMove) {
  counted_job([&](Rank& rank, CountingGroup& group) {
    start(rank, 10);
    rank.manager.wait();
    for (const int step : {20, 30, 40}) {
      group.reductions = group.others = 0;
      start(rank, step);
      EXPECT_EQ(group.reductions, 1);
      EXPECT_EQ(group.others, 0);
      rank.manager.wait();
    }
    EXPECT_EQ(rank.latest(), 40);
    EXPECT_EQ(rank.steps(), (std::vector<std::int64_t>{10, 20, 30, 40}));
    for (const auto& info : rank.manager.steps()) EXPECT_FALSE(info.superseded);
  });
}

TEST_P(PlanCache, ServesBlockingSavesToo) {
  counted_job([&](Rank& rank, CountingGroup& group) {
    const auto calls = [&](std::int64_t step) {
      group.reductions = group.others = 0;
      rank.save(step);
      return group.reductions + group.others;
    };
    rank.save(10);
    const auto second = calls(20);  // what it merges is kept
    const auto third = calls(30);
    if (GetParam() > 1) {
      EXPECT_LT(third, second) << "only checksums travel";
    }
    EXPECT_EQ(calls(40), third);
    EXPECT_EQ(rank.latest(), 40);
  });
}

TEST_P(PlanCache, AStateIsAnotherObjectEachTime) {
  job([&](Rank& rank) {
    for (const int step : {10, 20, 30}) {
      // Other memory of the same form.
      std::vector<double> wide(static_cast<std::size_t>(step), -1);
      std::int64_t number = step;
      wide.back() = step * 100 + rank.group->rank();
      State state;
      state.add("step", number);
      state.add("value", slice(&wide.back(), {rank.group->size()}, {rank.group->rank()}, {1}));
      rank.manager.save_async(step, state);
      wide.back() = -2;
      rank.manager.wait();
      EXPECT_EQ(rank.latest(), step);
    }
  });
}

TEST_P(PlanCache, AnyRankCanEndIt) {
  job([&](Rank& rank) {
    start(rank, 10);
    const int size = rank.group->size(), last = size - 1;
    for (const int step : {20, 30}) {
      // The last rank cuts its part in two; then it has one more tensor.
      std::vector<double> two{step + 0.5, step + 1.5};
      double more = 7;
      set(rank, step);
      State state;
      state.add("step", rank.step);
      if (rank.group->rank() == last) {
        state.add("two", patches({slice(&two[0], {2}, {0}, {1}), slice(&two[1], {2}, {1}, {1})}));
        if (step == 30) state.add("more", more);
      }
      rank.manager.save_async(step, state);
      two = {0, 0};
      rank.manager.wait();
      std::vector<double> seen(2);
      State back;
      back.add("two", whole(seen.data(), {2}));
      rank.manager.restore(step, back);
      EXPECT_EQ(seen, (std::vector<double>{step + 0.5, step + 1.5}));
      EXPECT_EQ(rank.manager.open(step).find("more") != nullptr, step == 30);
    }
  });
}

TEST_P(PlanCache, RanksThatDisagreeHearOfIt) {
  if (GetParam() == 1) return;
  job([&](Rank& rank) {
    start(rank, 10);
    rank.manager.wait();
    const auto mine = rank.group->rank();
    expect_error(rank, Code::disagreement, "the step", [&] {
      set(rank, 20);
      rank.manager.save_async(20 + mine, rank.state);
    });
    expect_error(rank, Code::disagreement, "SaveOptions: metric",
                 [&] { rank.manager.save_async(20, rank.state, {.metric = 1.0 * mine}); });
    expect_error(rank, Code::disagreement, "SaveOptions: metric", [&] {
      rank.manager.save_async(20, rank.state,
                              {.metric = mine ? std::optional<double>() : std::nan("")});
    });
    expect_error(rank, Code::disagreement, "replicas of tensor 'step'", [&] {
      rank.step += mine == GetParam() - 1;
      rank.manager.save_async(20, rank.state);
    });
    expect_error(rank, Code::disagreement, "replicas of tensor 'step'", [&] {
      rank.step = 20 + (mine == 0);
      rank.manager.save(20, rank.state);
    });
    start(rank, 20);
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 20);
  });
}

TEST_P(PlanCache, LargeReplicasAreLookedAtInTurn) {
  if (GetParam() == 1) return;
  options_.store.replicas.sample_of = 4;
  std::atomic<int> found = 0;
  job([&](Rank& rank) {
    std::vector<double> large(40'000, 1);
    State state;
    state.add("large", large);
    rank.manager.save_async(1, state);
    rank.manager.wait();
    if (rank.group->rank() == 1) large[12'345] = 2;
    for (int step = 2; step <= 5; ++step) {
      try {
        rank.manager.save_async(step, state);
        rank.manager.wait();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::disagreement);
        EXPECT_THAT(error.what(), testing::HasSubstr("12"));
        if (rank.group->rank() == 0) ++found;
        break;
      }
    }
  });
  EXPECT_EQ(found, 1) << "four saves in a row see all of it";
}

TEST_P(PlanCache, StringsMayChange) {
  job([&](Rank& rank) {
    std::string text = "abc";
    State state;
    state.add("text", text);
    std::int64_t step = 0;
    for (const char* value : {"abc", "xyz", "longer than before", ""}) {
      text = value;
      rank.manager.save_async(++step, state);
      text = "?";
      rank.manager.wait();
      std::string seen;
      State back;
      back.add("text", seen);
      rank.manager.restore(step, back);
      EXPECT_EQ(seen, value);
    }
  });
}

// As many strings with as many bytes in all, but their lengths take another number of bytes.
TEST_P(PlanCache, LengthsOfStringsTakeBytesToo) {
  job([&](Rank& rank) {
    std::vector<std::string> words{std::string(100, 'a'), std::string(156, 'b')};
    std::vector<double> behind(20'000, 3);
    State state;
    state.add("a/words", words).add("b/behind", behind);
    for (std::int64_t step = 1; step <= 3; ++step) {
      if (step == 2) words = {std::string(128, 'c'), std::string(128, 'd')};
      rank.manager.save_async(step, state);
      rank.manager.wait();
      std::vector<std::string> seen(2);
      std::vector<double> also(20'000);
      State back;
      back.add("a/words", seen).add("b/behind", also);
      rank.manager.restore(step, back);
      EXPECT_EQ(seen, words);
      EXPECT_EQ(also, behind);
    }
  });
}

TEST_P(PlanCache, ServesARankThatWritesNothing) {
  if (GetParam() == 1) return;
  counted_job([&](Rank& rank, CountingGroup& group) {
    const auto save = [&](std::int64_t step) {
      double one = static_cast<double>(step);
      State state;
      if (group.rank() == 0) state.add("one", one);
      rank.manager.save_async(step, state);
      rank.manager.wait();
      double seen = 0;
      State back;
      back.add("one", seen);
      rank.manager.restore(step, back);
      EXPECT_EQ(seen, one);
    };
    save(1);
    group.reductions = group.others = 0;
    double two = 2;
    State state;
    if (group.rank() == 0) state.add("one", two);
    rank.manager.save_async(2, state);
    EXPECT_EQ(group.reductions, 1);
    EXPECT_EQ(group.others, 0);
    rank.manager.wait();
    save(3);
  });
}

// The answers of a policy may depend on more than Cairn knows.
class CountingPolicy : public ShardingCallback {
 public:
  explicit CountingPolicy(bool stated) : stated_(stated) {}
  std::string description() const override { return "counting"; }
  std::optional<std::string> parameters() const override {
    return stated_ ? std::optional<std::string>("none") : std::nullopt;
  }
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override {
    ++calls;
    return ShardByTaskPolicy()(tensors);
  }
  mutable std::atomic<int> calls = 0;

 private:
  bool stated_;
};

TEST_P(PlanCache, APolicyIsAskedAgainUnlessItStatesItsParameters) {
  for (const bool stated : {false, true}) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    const auto policy = std::make_shared<CountingPolicy>(stated);
    options_.store.policy = policy;
    job([&](Rank& rank) {
      rank.save(10);
      rank.group->barrier();
      const int once = policy->calls;
      rank.group->barrier();
      rank.save(20);
      rank.group->barrier();
      EXPECT_EQ(policy->calls, stated ? once : 2 * once);
    });
  }
}

TEST_P(PlanCache, ASaveAfterAFailureIsPlannedAnew) {
  job([&](Rank& rank) {
    start(rank, 10);
    rank.manager.wait();
    rank.group->barrier();
    if (rank.group->rank() == 0) files_->inject({Code::io, "create", "part-00000", 0, 1});
    rank.group->barrier();
    start(rank, 20);
    expect_error(rank, Code::io, "part-00000", [&] { rank.manager.wait(); });
    start(rank, 20);
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 20);
  });
}

TEST_P(PlanCache, FilesOfOthersAreNotOverwritten) {
  job([&](Rank& rank) {
    start(rank, 10);
    rank.manager.wait();
    const auto count = rank.manager.open(10).num_files;
    const auto path = cat("/run/", "ckpt-20.data-00000-of-0000", count);
    if (rank.group->rank() == 0) io::write_file(*files_, path, "somebody's");
    rank.group->barrier();
    start(rank, 20);
    expect_error(rank, Code::already_exists, "did not write them", [&] { rank.manager.wait(); });
    if (rank.group->rank() == 0) {
      EXPECT_EQ(io::read_file(*files_, path, 100), "somebody's");
    }
    rank.group->barrier();
    start(rank, 20);  // the long way takes another number of files
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 20);
  });
}

// The directory cannot be read, so nobody knows whose file it is: it stays.
TEST_P(PlanCache, FilesOfOthersStayWhereTheDirectoryCannotBeRead) {
  job([&](Rank& rank) {
    start(rank, 10);
    rank.manager.wait();
    const auto count = rank.manager.open(10).num_files;
    const auto path = cat("/run/", "ckpt-20.data-00000-of-0000", count);
    if (rank.group->rank() == 0) {
      io::write_file(*files_, path, "somebody's");
      files_->inject({Code::io, "list", "/run", 0, 1});
    }
    rank.group->barrier();
    start(rank, 20);
    expect_error(rank, Code::io, "list", [&] { rank.manager.wait(); });
    if (rank.group->rank() == 0) {
      EXPECT_EQ(io::read_file(*files_, path, 100), "somebody's");
    }
    rank.group->barrier();
    start(rank, 20);
    rank.manager.wait();
    EXPECT_EQ(rank.latest(), 20);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, PlanCache, testing::Values(1, 2, 3, 7),
                         [](const auto& info) { return cat("np", info.param); });

}  // namespace
}  // namespace cairn
