#pragma once
/// Simulates what an interval between saves costs a job that fails again and again.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace cairn::bench {

/// Times between failures, from a Weibull distribution with this shape (1: exponential) and mean.
/// The same seed gives the same times on any machine: by inversion, from the generator's own bits.
inline std::vector<double> failures(double mean, double shape, int count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  const double scale = mean / std::tgamma(1 + 1 / shape);
  std::vector<double> gaps;
  gaps.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const double uniform = (static_cast<double>(generator() >> 11) + 0.5) * 0x1p-53;
    gaps.push_back(scale * std::pow(-std::log(uniform), 1 / shape));
  }
  return gaps;
}

/// The share of the time that made no progress. After each failure there is a restart, then work
/// and saves alternate; work that was not saved is lost. Failures strike during saves and restarts,
/// too.
inline double waste(const std::vector<double>& gaps, double interval, double cost, double restart) {
  double time = 0, saves = 0;
  for (const double gap : gaps) {
    time += gap;
    if (gap > restart) saves += std::floor((gap - restart) / (interval + cost));
  }
  return 1 - saves * interval / time;
}

/// What two levels of saves cost: after failures of the first kind the last save is enough, after
/// those of the second only the last one of `home_every`.
struct TwoLevels {
  double cost_nodes, cost_home, restart_nodes, restart_home;
};

/// The share of the time that made no progress, with both kinds of failures in the order of time.
inline double waste(const std::vector<double>& nodes, const std::vector<double>& home,
                    const TwoLevels& costs, double interval, int home_every) {
  double time = 0, done = 0, kept = 0, at_home = 0;  // work: until now, saved anywhere, at home
  std::size_t next_nodes = 0, next_home = 0;
  double fails_nodes = nodes[0], fails_home = home[0];
  std::int64_t saves = 0;
  while (next_nodes + 1 < nodes.size() && next_home + 1 < home.size()) {
    const bool goes_home = (saves + 1) % home_every == 0;
    const double end = time + interval + (goes_home ? costs.cost_home : costs.cost_nodes);
    const double fails = std::min(fails_nodes, fails_home);
    if (fails > end) {
      time = end;
      done += interval;
      kept = done;
      if (goes_home) at_home = done;
      ++saves;
      continue;
    }
    const bool hard = fails_home <= fails_nodes;
    done = kept = hard ? at_home : kept;
    if (hard) {
      time = fails + costs.restart_home;
      saves -= saves % home_every;  // the count restarts after a save at home
    } else {
      time = fails + costs.restart_nodes;
    }
    // A failure during a restart makes it begin again.
    while (fails_nodes <= time && next_nodes + 1 < nodes.size()) fails_nodes += nodes[++next_nodes];
    while (fails_home <= time && next_home + 1 < home.size()) fails_home += home[++next_home];
  }
  return 1 - kept / time;
}

struct Best {
  double interval = 0, waste = 1;
};

/// The pair that would have been best for these very failures, on a grid and then finer.
struct BestOfTwo {
  double interval = 0, waste = 1;
  int home_every = 1;
};
inline BestOfTwo best_of_two(const std::vector<double>& nodes, const std::vector<double>& home,
                             const TwoLevels& costs, double around, int most) {
  BestOfTwo best;
  for (int every = 1; every <= most; every = std::max(every + 1, every * 5 / 4)) {
    for (double interval = around / 4; interval <= 4 * around; interval *= 1.15) {
      const double wasted = waste(nodes, home, costs, interval, every);
      if (wasted < best.waste) best = {interval, wasted, every};
    }
  }
  return best;
}

/// The fixed interval that would have been best for these very failures: on a grid, then finer
/// around the best of it.
inline Best best_interval(const std::vector<double>& gaps, double mean, double cost,
                          double restart) {
  Best best;
  const auto look = [&](double from, double to, int points) {
    for (int i = 0; i < points; ++i) {
      const double interval = from * std::pow(to / from, i / (points - 1.0));
      const double wasted = waste(gaps, interval, cost, restart);
      if (wasted < best.waste) best = {interval, wasted};
    }
  };
  look(0.2 * std::sqrt(2 * cost * mean), 8 * std::sqrt(2 * cost * mean) + mean, 60);
  if (best.interval > 0) look(best.interval / 1.1, best.interval * 1.1, 21);
  return best;
}

}  // namespace cairn::bench
