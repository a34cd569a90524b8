#pragma once
/// Plays everything that a seed chooses.
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/campaigns/programs/crash_plan.hpp"

namespace cairn::campaign {

struct Tally {
  std::atomic<std::int64_t> jobs = 0, saves = 0, states = 0;
  std::atomic<std::int64_t> unchanged = 0;  ///< bytes that saves have left out
  std::atomic<std::int64_t> encoded = 0;    ///< saves with a codec
};

/// Plays the plan and looks at so many states that a crash could leave at its end, besides those
/// within it. Returns the findings, in words.
std::vector<std::string> play(const Plan&, int states, Tally&);

}  // namespace cairn::campaign
