// How far optimal_interval is from the best fixed interval, which is found by search: a table over
// mean times between failures, costs of a save and kinds of failures. Always the same numbers.
//
//   interval_bench            the table; exit code 1 where a row that counts is beyond 5 %
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "cairn/optimal_interval.hpp"
#include "lab/bench/interval_simulation.hpp"

namespace {

// Two levels: saves on the nodes and at home. Returns the worst ratio to the best pair.
double two_levels() {
  using namespace cairn;
  double worst = 0;
  std::printf(
      "\ntwo levels: a save on the nodes and one at home; restarts take as long as saves.\n\n");
  std::printf("%8s %8s %7s %7s | %8s %5s %7s | %8s %5s %7s %6s | %s\n", "MTBF s", "home s",
              "cost s", "home s", "best s", "n", "waste", "ours s", "n", "waste", "x best",
              "home alone: waste");
  std::uint64_t seed = 100;
  for (const double mtbf_nodes : {1800.0, 4 * 3600.0}) {
    for (const double mtbf_home : {12 * 3600.0, 5 * 24 * 3600.0}) {
      const auto nodes = bench::failures(mtbf_nodes, 1, 10'000, seed++);
      const auto home = bench::failures(mtbf_home, 1, 10'000, seed++);
      for (const auto& [cost_nodes, cost_home] :
           {std::pair{1.0, 30.0}, {5.0, 180.0}, {10.0, 60.0}}) {
        const bench::TwoLevels costs{cost_nodes, cost_home, cost_nodes, cost_home};
        const auto ours = optimal_intervals(cost_nodes, mtbf_nodes, cost_home, mtbf_home);
        const auto wasted = bench::waste(nodes, home, costs, ours.interval, ours.home_every);
        const auto best =
            bench::best_of_two(nodes, home, costs, ours.interval, 8 * ours.home_every);
        const double rate = 1 / mtbf_nodes + 1 / mtbf_home;
        const auto alone =
            bench::waste(nodes, home, costs, optimal_interval(cost_home, 1 / rate), 1);
        worst = std::max(worst, wasted / best.waste);
        std::printf(
            "%8.0f %8.0f %7.0f %7.0f | %8.1f %5d %6.2f%% | %8.1f %5d %6.2f%% %6.3f | %6.2f%%\n",
            mtbf_nodes, mtbf_home, cost_nodes, cost_home, best.interval, best.home_every,
            100 * best.waste, ours.interval, ours.home_every, 100 * wasted, wasted / best.waste,
            100 * alone);
      }
    }
  }
  std::printf("\nworst: %.3f x the best pair\n", worst);
  return worst;
}

}  // namespace

int main() {
  using namespace cairn;
  constexpr int failures_each = 40'000;
  const double mtbfs[] = {600, 1800, 3600, 6 * 3600, 24 * 3600};
  const double costs[] = {1, 10, 60, 180, 600};
  const double shapes[] = {1, 0.7, 0.5};
  double worst = 0, worst_of_rest = 0;
  std::printf("waste: share of the time that is no progress (saves, restarts, work done twice).\n");
  std::printf("A restart takes as long as a save. best: the best fixed interval, by search.\n\n");
  std::printf("%8s %7s %6s | %9s %7s | %9s %7s %6s | %9s %6s | %9s %6s\n", "MTBF s", "cost s",
              "shape", "best s", "waste", "optimal s", "waste", "x best", "Daly s", "x best",
              "Young s", "x best");
  std::uint64_t seed = 1;
  for (const double shape : shapes) {
    for (const double mtbf : mtbfs) {
      const auto gaps = bench::failures(mtbf, shape, failures_each, seed++);
      for (const double cost : costs) {
        const auto best = bench::best_interval(gaps, mtbf, cost, cost);
        const auto wasted = [&](double interval) {
          return bench::waste(gaps, interval, cost, cost);
        };
        const double ours = optimal_interval(cost, mtbf), daly = daly_interval(cost, mtbf),
                     young = young_interval(cost, mtbf);
        const bool counts = cost <= mtbf / 10;
        const double ratio = wasted(ours) / best.waste;
        (counts ? worst : worst_of_rest) = std::max(counts ? worst : worst_of_rest, ratio);
        std::printf(
            "%8.0f %7.0f %6.1f | %9.1f %6.2f%% | %9.1f %6.2f%% %6.3f | %9.1f %6.3f | "
            "%9.1f %6.3f%s\n",
            mtbf, cost, shape, best.interval, 100 * best.waste, ours, 100 * wasted(ours), ratio,
            daly, wasted(daly) / best.waste, young, wasted(young) / best.waste,
            counts ? "" : "  *");
      }
    }
  }
  std::printf(
      "\nworst: %.3f x the best; where a save costs more than a tenth of the MTBF (*): %.3f\n",
      worst, worst_of_rest);
  const double worst_of_two = two_levels();
  return worst <= 1.05 && worst_of_two <= 1.05 ? 0 : 1;
}
