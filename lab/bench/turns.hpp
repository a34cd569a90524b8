#pragma once
/// Contestants that take their turns on command of scripts/bench, which runs other programs in
/// between.
#include <functional>
#include <string>
#include <vector>

#include "raw_io.hpp"

namespace cairn::bench {

struct Time {
  double seconds = 0, cpu_seconds = 0;
};
/// The time since some moment, and the processor time of this process so far.
Time now();
Time operator-(const Time&, const Time&);

/// Another row of a turn: its time on rank 0.
struct Part {
  std::string measure, what;
  Time time;
};

/// `timed` is measured; `before` and `after` are not. All ranks run all of it.
struct Contestant {
  std::string measure, what;
  std::function<void()> before, timed, after = [] {};
  bool yardstick = false;    ///< plain I/O: others of the measure are compared with the best of it
  std::string against = "";  ///< the measure whose yardsticks count; empty: its own
  double bytes = 0;          ///< of the job; 0: those of the state
  /// Called after `after`: a time that replaces that of `timed`, and further rows.
  std::function<Time()> time = nullptr;
  std::function<std::vector<Part>()> also = nullptr;
};

/// Rank 0 prints lines of "@ " and JSON on standard output: the contestants, and after each line
/// "run NUMBER" of standard input their seconds, from a barrier to the barrier after the slowest
/// rank. "end" ends.
void serve(const Ranks& ranks, std::vector<Contestant> contestants, double bytes,
           const std::string& note);

}  // namespace cairn::bench
