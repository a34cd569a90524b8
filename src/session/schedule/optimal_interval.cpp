// Optimal intervals for failures that come at random with a constant rate (exponential law).
#include "cairn/optimal_interval.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

void require(double cost, double mtbf) {
  if (cost >= 0 && mtbf > 0) return;
  throw Error(Code::invalid_argument,
              cat("no interval is best for a cost of ", cost,
                  " and a mean time between failures of ", mtbf),
              "the cost must not be negative, and the mean time positive");
}

// Solves x + log(1 - x) = -c for x in [0, 1). The series of the left side is -x²/2 - x³/3 - ….
double solve(double c) {
  if (c > 30) return -std::expm1(-c - 1);  // here log(1 - x) = -c - x, and x is 1 up to e^-31
  const double root = std::sqrt(2 * c);
  // Here the difference x + log(1 - x) would lose its digits; the series does not.
  if (root < 1e-4) return root * (1 - root / 3 + root * root / 36);
  // Both values are above the solution. From there Newton's steps fall towards it and do not pass
  // it, since the left side is concave and falls. The first that does not fall is of rounding.
  double x = 1, next = std::min(root, -std::expm1(-c - 1));
  while (next < x) {
    x = next;
    next += (x + std::log1p(-x) + c) * (1 - x) / x;  // the derivative is -x/(1 - x)
  }
  return x;
}

}  // namespace

double optimal_interval(double cost, double mtbf) {
  require(cost, mtbf);
  if (cost == 0) return 0;
  if (std::isinf(mtbf)) return mtbf;
  if (std::isinf(cost)) return mtbf;
  return mtbf * solve(cost / mtbf);
}

TwoIntervals optimal_intervals(double cost_nodes, double mtbf_nodes, double cost_home,
                               double mtbf_home) {
  require(cost_nodes, mtbf_nodes);
  require(cost_home, mtbf_home);
  // With a home save that costs no more than one on the nodes, each save goes home (n = 1). The
  // limit keeps n a number that fits an int.
  constexpr double most = 1e6;
  double n = 1;
  if (cost_home > cost_nodes && !std::isinf(mtbf_nodes)) {
    n = std::sqrt((cost_home - cost_nodes) / cost_nodes * (mtbf_home / mtbf_nodes));
    n = n < most ? n : most;  // this also replaces NaN, from 0 / 0
  }
  // The loss changes little between two whole numbers, so the better of both is taken.
  // At the best interval about sqrt(2 cost rate) of the time is lost, so the product of mean cost
  // and rate decides. A failure of a node loses one interval; one that needs home loses `every` of
  // them, which counts as so many failures.
  const auto loss = [&](double every) {
    return (cost_nodes * (every - 1) + cost_home) / every * (1 / mtbf_nodes + every / mtbf_home);
  };
  const double below = std::max(1.0, std::floor(n)), above = std::max(1.0, std::ceil(n));
  const double every = loss(above) < loss(below) ? above : below;
  const double cost = (cost_nodes * (every - 1) + cost_home) / every;
  const double rate = 1 / mtbf_nodes + every / mtbf_home;
  return {optimal_interval(cost, rate > 0 ? 1 / rate : std::numeric_limits<double>::infinity()),
          static_cast<int>(every)};
}

double young_interval(double cost, double mtbf) {
  require(cost, mtbf);
  return std::sqrt(2 * cost * mtbf);
}

double daly_interval(double cost, double mtbf) {
  require(cost, mtbf);
  if (cost >= 2 * mtbf) return mtbf;
  const double ratio = cost / (2 * mtbf);
  return std::sqrt(2 * cost * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

double expected_waste(double interval, double cost, double mtbf, double restart) {
  require(cost, mtbf);
  if (!(interval > 0 && restart >= 0)) {
    throw Error(
        Code::invalid_argument,
        cat("no waste can be told of an interval of ", interval, " and a restart of ", restart),
        "the interval must be positive, and the restart not negative");
  }
  if (std::isinf(mtbf)) return cost / (interval + cost);
  return 1 - interval / (mtbf * std::exp(restart / mtbf) * std::expm1((interval + cost) / mtbf));
}

}  // namespace cairn
