#pragma once
/// Does the parts of many ranks one after the other, on one core.
#include <time.h>

#include <vector>

#include "exchange/messages.hpp"
#include "exchange/spread.hpp"
#include "group/collectives.hpp"

namespace cairn::bench {

/// Processor time of this thread, so that other programs on the machine are not counted.
class Clock {
 public:
  explicit Clock(double& sum) : sum_(sum), begin_(now()) {}
  ~Clock() { sum_ += now() - begin_; }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double& sum_;
  const double begin_;
};

/// Plans the rest when each rank has said what it wants. Adds each rank's time to `took`; returns
/// how many planners there were.
inline int plan_in_turn(std::vector<plan::Spread>& spreads, std::vector<double>& took) {
  std::int64_t pieces = 0;
  for (auto& one : spreads) pieces += one.pieces();
  const auto planners = spreads[0].planners(pieces);
  std::vector<Messages> mail(spreads.size());
  const auto deliver = [&](const auto& step) {
    std::vector<Messages> come(spreads.size());
    for (std::size_t r = 0; r < spreads.size(); ++r) {
      Messages sent;
      {
        const Clock clock(took[r]);
        sent = step(r);
      }
      mail[r] = {};
      for (auto& [to, letter] : sent) {
        come[static_cast<std::size_t>(to)].emplace_back(static_cast<int>(r), std::move(letter));
      }
    }
    mail = std::move(come);
  };
  deliver([&](std::size_t r) { return spreads[r].ask(planners); });
  std::vector<std::int64_t> sums(2 * spreads.size() + 1);
  for (std::size_t r = 0; r < spreads.size(); ++r) {
    std::vector<std::int64_t> known;
    {
      const Clock clock(took[r]);
      known = spreads[r].weigh(mail[r]);
    }
    for (std::size_t i = 0; i < known.size(); ++i) sums[i] += known[i];
  }
  deliver([&](std::size_t r) { return spreads[r].decide(sums); });
  deliver([&](std::size_t r) { return spreads[r].accept(mail[r]); });
  for (std::size_t r = 0; r < spreads.size(); ++r) {
    const Clock clock(took[r]);
    spreads[r].finish(mail[r]);
  }
  return planners;
}

}  // namespace cairn::bench
