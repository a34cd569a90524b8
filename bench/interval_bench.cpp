// How far optimal_interval is from the best fixed interval, which is found by search: a table over
// mean times between failures, costs of a save and kinds of failures. Always the same numbers.
//
//   interval_bench            the table; exit code 1 where a row that counts is beyond 5 %
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "bench/interval_simulation.hpp"
#include "cairn/optimal_interval.hpp"

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
  return worst <= 1.05 ? 0 : 1;
}
