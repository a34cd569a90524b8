// The plan of HDF5 files, that serves one save after the other.
#include "base/text.hpp"
#include "checkpoint/plan_cache_kit.hpp"

namespace cairn {
namespace {

class PlanCacheHdf5 : public PlanCache {
 protected:
  PlanCacheHdf5() { options_.format = Format::hdf5; }
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

INSTANTIATE_TEST_SUITE_P(Ranks, PlanCacheHdf5, testing::Values(1, 2, 3, 7),
                         [](const auto& info) { return cat("np", info.param); });

}  // namespace
}  // namespace cairn
