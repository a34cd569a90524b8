// Tests Plans alone: the ranks are threads; there is no directory and no save.
#include "session/save/plans.hpp"

#include <gmock/gmock.h>

#include "cairn/cairn.hpp"
#include "group/call_group.hpp"
#include "session/save/agree_on_save.hpp"
#include "support/memory_run.hpp"

namespace cairn {
namespace {

class PlansAlone : public ::testing::TestWithParam<int> {
 protected:
  // The data of one rank.
  struct Rank {
    Job job;
    Plans plans;
    explicit Rank(std::shared_ptr<Group> group, const ManagerOptions& options)
        : job(make_job(std::move(group), "/run", "ckpt", options)), plans(job) {
      agree_on_options(job);
      agree_on_save(job);
      plans.begin(0);
    }
    std::shared_ptr<SavePlan> make(const State& state) {
      const RefreshedState seen(state);
      return plans.make(seen, seen, job.sharding, std::make_shared<const GapsByKey>());
    }
    // Whether all ranks would reuse the kept plan.
    bool again(std::int64_t step, const State& state, const SaveOptions& options = {},
               bool may = true) {
      auto sum = plans.ask(step, RefreshedState(state), options, may);
      job.group->all_reduce(sum.values, Group::Op::sum);
      return sum.agreed();
    }
  };

  void run(const std::function<void(Rank&)>& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      Rank rank(std::move(group), options_);
      body(rank);
    });
  }

  // A tensor that ranks share by rows, and one that all of them hold.
  struct Sample {
    std::vector<double> rows, weights;
    State state;
    Sample(const Rank& rank, std::int64_t each = 3)
        : rows(static_cast<std::size_t>(2 * each), 1.0), weights(5, 2.0) {
      const auto first = each * rank.job.rank();
      state.add("rows", slice(rows.data(), Dims{each * rank.job.group->size(), 2}, Dims{first, 0},
                              Dims{each, 2}));
      state.add("weights", whole(weights.data(), Dims{5}));
    }
  };

  ManagerOptions options_ = test::on_disk();
};

INSTANTIATE_TEST_SUITE_P(Ranks, PlansAlone, testing::Values(1, 3));

TEST_P(PlansAlone, AnEqualStateMayUseThePlanAgain) {
  run([](Rank& rank) {
    Sample first(rank);
    EXPECT_FALSE(rank.again(1, first.state)) << "there is none";
    const auto plan = rank.make(first.state);
    ASSERT_EQ(rank.plans.kept(), plan);
    Sample other(rank);  // other memory, other values
    std::fill(other.rows.begin(), other.rows.end(), 7.0);
    EXPECT_TRUE(rank.again(2, other.state));
    rank.plans.forget();
    EXPECT_FALSE(rank.again(2, other.state));
  });
}

TEST_P(PlansAlone, AnotherFormOnOneRankIsNoneOnAll) {
  run([](Rank& rank) {
    Sample first(rank);
    rank.make(first.state);
    Sample other(rank);
    double more = 0;
    if (rank.job.root()) other.state.add("more", more);
    EXPECT_FALSE(rank.again(2, other.state));
    EXPECT_TRUE(rank.again(2, first.state));
    EXPECT_FALSE(rank.again(2, first.state, {}, !rank.job.root())) << "one rank may not";
    EXPECT_FALSE(rank.again(-1, first.state));
  });
}

TEST_P(PlansAlone, RanksAgreeOnStepMetricAndReplicas) {
  run([](Rank& rank) {
    Sample sample(rank);
    rank.make(sample.state);
    const bool alone = rank.job.group->size() == 1;
    EXPECT_EQ(rank.again(rank.job.root() ? 2 : 3, sample.state), alone);
    EXPECT_EQ(rank.again(2, sample.state, {.metric = rank.job.root() ? 0.5 : 0.25}), alone);
    EXPECT_TRUE(rank.again(2, sample.state, {.metric = 0.5}));
    if (rank.job.root()) sample.weights[4] = 3;
    EXPECT_EQ(rank.again(2, sample.state), alone);
  });
}

TEST_P(PlansAlone, APolicyThatStatesNoParametersHasNoPlanForLater) {
  struct Silent : ShardByTaskPolicy {
    std::optional<std::string> parameters() const override { return std::nullopt; }
  };
  options_.store.policy = std::make_shared<Silent>();
  run([](Rank& rank) {
    Sample sample(rank);
    EXPECT_TRUE(rank.make(sample.state));
    EXPECT_FALSE(rank.plans.kept());
  });
}

TEST_P(PlansAlone, AfterADifferenceEverythingIsCompared) {
  run([](Rank& rank) {
    EXPECT_EQ(rank.plans.round().check, ReplicaCheck::sample);
    Plans::Comparisons suspect{.count = 40, .suspect = true};
    rank.plans.end_round();
    rank.plans.go_on_from(suspect);
    EXPECT_EQ(rank.plans.comparisons().count, 40);
    EXPECT_EQ(rank.plans.round().check, ReplicaCheck::all);
    Sample sample(rank);
    rank.make(sample.state);
    EXPECT_FALSE(rank.plans.kept()) << "made for another comparison";
  });
}

}  // namespace
}  // namespace cairn
