#pragma once
/// What an interval between saves costs a job that fails again and again, by simulation.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace cairn::bench {

/// Times between a failure and the next, Weibull with this shape (1: exponential) and mean. The
/// same seed gives the same ones on any machine: by inversion, from the generator's own bits.
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

/// The share of the time that was no progress. After each failure: a restart, then work and a save
/// by turns; what was not saved is lost. Failures strike during saves and restarts, too.
inline double waste(const std::vector<double>& gaps, double interval, double cost, double restart) {
  double time = 0, saves = 0;
  for (const double gap : gaps) {
    time += gap;
    if (gap > restart) saves += std::floor((gap - restart) / (interval + cost));
  }
  return 1 - saves * interval / time;
}

struct Best {
  double interval = 0, waste = 1;
};

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
