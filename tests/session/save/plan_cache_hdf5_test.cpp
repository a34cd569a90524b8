// The plan of HDF5 files, which serves one save after the other.
#include "base/text.hpp"
#include "session/save/plan_cache_kit.hpp"

namespace cairn {
namespace {

class PlanCacheHdf5 : public PlanCache {
 protected:
  PlanCacheHdf5() { options_.store.format = Format::hdf5; }
};

TEST_P(PlanCacheHdf5, ServesBothKindsOfSaves) {
  counted_job([&](Rank& rank, CountingGroup& group) {
    const auto save = [&](std::int64_t step, bool async) {
      group.reductions = group.others = 0;
      set(rank, step);
      if (async) {
        rank.manager.save_async(step, rank.state);
        rank.step = rank.value = -1;  // captured
      } else {
        rank.manager.save(step, rank.state);
      }
      const auto calls = group.reductions + group.others;
      rank.manager.wait();
      EXPECT_EQ(rank.manager.statistics().last.back().plan_reused, step > 10) << step;
      EXPECT_EQ(rank.latest(), step);
      return calls;
    };
    const auto long_way = save(10, true);
    const auto again = save(20, true);
    EXPECT_EQ(save(30, true), again);
    EXPECT_LE(again, long_way);
    const auto blocking = save(40, false);
    EXPECT_EQ(save(50, false), blocking);
    save(60, true);
  });
}

TEST_P(PlanCacheHdf5, BuffersMayTakeTurns) {
  job([&](Rank& rank) {
    const auto ranks = rank.group->size(), me = rank.group->rank();
    std::vector<double> u(2), next(2);
    State state;
    state.add("u", slice(&u, {2 * ranks}, {2 * me}, {2}));
    for (int step = 1; step <= 4; ++step) {
      next = {step * 100.0 + me, step * 100.5 + me};
      std::swap(u, next);
      const auto expected = u;
      if (step % 2) {
        rank.manager.save_async(step, state);
      } else {
        rank.manager.save(step, state);
      }
      u = next = {-1, -1};
      rank.manager.wait();
      EXPECT_EQ(rank.manager.statistics().last.back().plan_reused, step > 1);
      rank.manager.restore(step, state);
      EXPECT_EQ(u, expected);
      EXPECT_EQ(next[0], -1);
    }
  });
}

TEST_P(PlanCacheHdf5, FilesHaveTheStringsOfTheirStep) {
  job([&](Rank& rank) {
    for (const int step : {10, 20, 30}) {
      set(rank, step);
      std::vector<std::string> names{cat("step ", step)}, seen(1);
      State state, back;
      state.add("value", slice(&rank.value, {rank.group->size()}, {rank.group->rank()}, {1}));
      if (rank.group->rank() == rank.group->size() - 1) state.add("names", names);
      if (step == 20) {
        rank.manager.save(step, state);
      } else {
        rank.manager.save_async(step, state);
        rank.manager.wait();
      }
      back.add("names", seen);
      rank.manager.restore(step, back);
      EXPECT_THAT(seen, testing::ElementsAre(cat("step ", step)));
    }
  });
}

TEST_P(PlanCacheHdf5, AFailureOfTheSameStepMeanwhileEndsIt) {
  options_.async.throw_failures = false;
  for (std::size_t operation = 0; operation < 40; ++operation) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_.write.file_system = files_;
    job([&](Rank& rank) {
      rank.save(10);
      if (rank.group->rank() == 0) files_->inject({Code::io, "", "", operation, 1});
      rank.group->barrier();
      for (const std::int64_t step : {20, 20, 30}) {
        try {
          start(rank, step);
        } catch (const Error&) {  // the operation was one of before the capture, or 20 is there
        }
      }
      rank.manager.wait();
      rank.save(40);
      EXPECT_EQ(rank.latest(), 40) << operation;
    });
  }
}

TEST_P(PlanCacheHdf5, ReplicasThatDifferAreFound) {
  if (GetParam() == 1) return;
  job([&](Rank& rank) {
    rank.save(10);
    rank.save(20);
    for (const bool async : {false, true}) {
      expect_error(rank, Code::disagreement, "replicas of tensor 'step'", [&] {
        set(rank, 30);
        rank.step += rank.group->rank() == GetParam() - 1;
        if (async) {
          rank.manager.save_async(30, rank.state);
        } else {
          rank.manager.save(30, rank.state);
        }
      });
    }
    rank.save(30);
    EXPECT_EQ(rank.latest(), 30);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, PlanCacheHdf5, testing::Values(1, 2, 3, 7),
                         [](const auto& info) { return cat("np", info.param); });

}  // namespace
}  // namespace cairn
