#include "cairn/optimal_interval.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cairn/error.hpp"
#include "io/expect_error.hpp"
#include "lab/bench/interval_simulation.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// The interval is where the derivative of the expected time of a unit of work is 0.
TEST(OptimalInterval, SolvesItsEquationOverManyMagnitudes) {
  for (double cost = 1e-9; cost < 30; cost *= 1.7) {
    const double x = optimal_interval(cost, 1);
    ASSERT_GT(x, 0) << cost;
    ASSERT_LT(x, 1) << cost;
    // (1 - x) e^x = e^-cost, in logarithms; the left side begins with -x²/2.
    EXPECT_NEAR(x + std::log1p(-x), -cost, 1e-9 * cost + 2e-16 * x / (1 - x)) << cost;
  }
}

TEST(OptimalInterval, IsBestOfItsNeighbours) {
  for (const double cost : {0.001, 0.1, 1.0, 5.0}) {
    const double best = optimal_interval(cost, 1), least = expected_waste(best, cost, 1, 0.2);
    for (const double factor : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
      EXPECT_GT(expected_waste(best * factor, cost, 1, 0.2), least) << cost << " " << factor;
    }
  }
}

TEST(OptimalInterval, ScalesAndGrows) {
  EXPECT_NEAR(optimal_interval(60, 3600), 3600 * optimal_interval(60.0 / 3600, 1), 1e-9);
  double last = 0;
  for (double cost = 1e-6; cost < 100; cost *= 2) {
    const double x = optimal_interval(cost, 1);
    EXPECT_GE(x, last) << cost;
    last = x;
  }
  EXPECT_NEAR(last, 1, 1e-12);
}

TEST(OptimalInterval, NoWasteIsToldOfWhatIsNoInterval) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::pair<double, double> refused[] = {{0, 1}, {-1, 1}, {none, 1}, {1, -1}, {1, none}};
  for (const auto& [interval, restart] : refused) {
    EXPECT_CAIRN_ERROR(expected_waste(interval, 1, 100, restart), Code::invalid_argument,
                       "no waste can be told");
  }
  EXPECT_GT(expected_waste(1, 1, 100, 0), 0);
}

TEST(OptimalIntervals, AreNearTheBestPair) {
  const bench::TwoLevels costs{5, 180, 5, 180};
  const auto nodes = bench::failures(1800, 1, 3000, 1), home = bench::failures(43200, 1, 3000, 2);
  const auto ours = optimal_intervals(costs.cost_nodes, 1800, costs.cost_home, 43200);
  const auto wasted = bench::waste(nodes, home, costs, ours.interval, ours.home_every);
  for (const double factor : {0.5, 0.8, 1.25, 2.0}) {
    const auto every = static_cast<int>(factor * ours.home_every);
    EXPECT_LT(wasted, 1.02 * bench::waste(nodes, home, costs, ours.interval, every)) << factor;
    EXPECT_LT(wasted,
              1.02 * bench::waste(nodes, home, costs, factor * ours.interval, ours.home_every))
        << factor;
  }
  EXPECT_GT(bench::waste(nodes, home, costs, ours.interval, 8 * ours.home_every), 1.02 * wasted);
  EXPECT_GT(bench::waste(nodes, home, costs, ours.interval, 1), 1.3 * wasted);
}

TEST(OptimalIntervals, HaveTheirLimits) {
  const auto same = optimal_intervals(60, 3600, 60, 86400);  // the nodes are of no use
  EXPECT_EQ(same.home_every, 1);
  EXPECT_NEAR(same.interval, optimal_interval(60, 1 / (1.0 / 3600 + 1.0 / 86400)), 1e-9);
  EXPECT_EQ(optimal_intervals(90, 3600, 60, 86400).home_every, 1);
  EXPECT_EQ(optimal_intervals(1, 3600, 60, infinite).home_every, 1'000'000);
  EXPECT_EQ(optimal_intervals(1, infinite, 60, 3600).home_every, 1);
  EXPECT_EQ(optimal_intervals(1, infinite, 60, infinite).interval, infinite);
  EXPECT_THROW(optimal_intervals(-1, 3600, 60, 3600), Error);
  EXPECT_THROW(optimal_intervals(1, 3600, 60, 0), Error);
}

TEST(OptimalInterval, HasItsLimits) {
  EXPECT_EQ(optimal_interval(0, 100), 0);
  EXPECT_EQ(optimal_interval(0, infinite), 0);
  EXPECT_EQ(optimal_interval(1, infinite), infinite);
  EXPECT_EQ(optimal_interval(infinite, 100), 100);
  for (const auto& [cost, mtbf] :
       {std::pair{-1.0, 1.0}, {1.0, 0.0}, {1.0, -1.0}, {std::nan(""), 1.0}, {1.0, std::nan("")}}) {
    try {
      optimal_interval(cost, mtbf);
      ADD_FAILURE() << cost << " " << mtbf;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_THAT(error.what(), test::Says("no interval is best for a cost of"));
    }
  }
}

TEST(OptimalInterval, YoungAndDalyAreCloseWhereTheySayThatTheyAre) {
  EXPECT_DOUBLE_EQ(young_interval(50, 10'000), 1000);
  EXPECT_NEAR(daly_interval(50, 10'000), 1000 * (1 + 0.05 / 3 + 0.0025 / 9) - 50, 1e-9);
  EXPECT_EQ(daly_interval(200, 100), 100);
  EXPECT_EQ(daly_interval(201, 100), 100);
  for (const double cost : {0.001, 0.01, 0.1}) {
    EXPECT_NEAR(daly_interval(cost, 1) / optimal_interval(cost, 1), 1, 0.002) << cost;
    EXPECT_NEAR(young_interval(cost, 1) / optimal_interval(cost, 1), 1, 2 * std::sqrt(cost));
  }
}

// lab/bench/interval_bench prints the whole table.
TEST(OptimalInterval, WastesHardlyMoreThanTheBestFixedInterval) {
  std::uint64_t seed = 100;
  for (const double shape : {1.0, 0.7, 0.5}) {
    for (const double mtbf : {600.0, 3600.0, 24 * 3600.0}) {
      const auto gaps = bench::failures(mtbf, shape, 6000, seed++);
      for (const double cost : {1.0, 60.0, 600.0}) {
        if (cost > mtbf / 10) continue;
        const auto best = bench::best_interval(gaps, mtbf, cost, cost);
        const double ours = bench::waste(gaps, optimal_interval(cost, mtbf), cost, cost);
        EXPECT_LE(ours, 1.05 * best.waste)
            << "seed " << seed - 1 << ", shape " << shape << ", mtbf " << mtbf << ", cost " << cost;
      }
    }
  }
}

TEST(OptimalInterval, TheSimulationAgreesWithTheFormula) {
  const auto gaps = bench::failures(1000, 1, 40'000, 7);
  for (const double interval : {50.0, 200.0, 800.0}) {
    EXPECT_NEAR(bench::waste(gaps, interval, 30, 20), expected_waste(interval, 30, 1000, 20), 0.01)
        << interval;
  }
}

}  // namespace
}  // namespace cairn
