#pragma once
/// Contestants that take their turns when somebody says so: scripts/bench, which runs other
/// programs between them.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "raw_io.hpp"

namespace cairn::bench {

/// What is timed, and what happens before and after it outside of the time. All ranks do all of it.
struct Contestant {
  std::string measure, what;
  std::function<void()> before, timed, after = [] {};
  bool yardstick =
      false;  ///< plain I/O: the best of them is what others in a measure are set beside
  std::string against = "";  ///< the measure whose yardsticks count; empty: its own
  double bytes = 0;          ///< of the job; 0: those of the state
  /// After `after`: further measures of the same turn, and their seconds. Those of rank 0 count.
  std::function<std::map<std::string, double>()> also = nullptr;
};

/// Rank 0 prints lines of "@ " and JSON on standard output: what contestants there are, and after
/// each line "run NUMBER" of standard input their seconds, from a barrier to the barrier after the
/// slowest rank. "end" ends.
void serve(const Ranks& ranks, std::vector<Contestant> contestants, double bytes,
           const std::string& note);

}  // namespace cairn::bench
