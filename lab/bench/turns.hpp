#pragma once
/// Contestants that take their turns when somebody says so: scripts/bench, which runs other
/// programs between them.
#include <functional>
#include <string>
#include <vector>

#include "raw_io.hpp"

namespace cairn::bench {

struct Time {
  double seconds = 0, cpu_seconds = 0;
};
/// Since some moment, and what this process has used so far.
Time now();
Time operator-(const Time&, const Time&);

/// A further row of a turn: its time on rank 0.
struct Part {
  std::string measure, what;
  Time time;
};

/// What is timed, and what happens before and after it outside of the time. All ranks do all of it.
struct Contestant {
  std::string measure, what;
  std::function<void()> before, timed, after = [] {};
  bool yardstick = false;    ///< plain I/O: others of the measure are set beside the best of it
  std::string against = "";  ///< the measure whose yardsticks count; empty: its own
  double bytes = 0;          ///< of the job; 0: those of the state
  /// After `after`: what counts instead of all of `timed`, and what else was measured.
  std::function<Time()> time = nullptr;
  std::function<std::vector<Part>()> also = nullptr;
};

/// Rank 0 prints lines of "@ " and JSON on standard output: what contestants there are, and after
/// each line "run NUMBER" of standard input their seconds, from a barrier to the barrier after the
/// slowest rank. "end" ends.
void serve(const Ranks& ranks, std::vector<Contestant> contestants, double bytes,
           const std::string& note);

}  // namespace cairn::bench
