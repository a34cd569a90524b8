#pragma once
/// How often a test tries again. Sanitizers look at the code, not at all cases: where each case
/// runs the same code, some of them show it. Without sanitizers all are tried, but for crash
/// states, of which there are hundreds of thousands.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace cairn::test {

#ifdef CAIRN_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// Of random cases: an eighth.
template <class Count>
constexpr Count rounds(Count all) {
  if (!sanitized) return all;
  return all < 8 ? 1 : all / 8;
}

/// Steps through cases that are listed: 1, or `some` with sanitizers.
constexpr std::size_t stride(std::size_t some) { return sanitized ? some : 1; }

/// Whether CAIRN_ALL_STATES is set, as scripts/campaign states does: every crash state, which takes
/// some times as long as those that are tried else.
inline bool all_states() {
  static const bool all = std::getenv("CAIRN_ALL_STATES") != nullptr;
  return all;
}

/// Steps through crash states that are listed: `some`, or `few` with sanitizers.
inline std::size_t state_step(std::size_t some, std::size_t few) {
  return all_states() ? 1 : sanitized ? few : some;
}

/// CAIRN_STATE_STRIDE=N: only every Nth of the crash states that would be tried else. scripts/lane
/// aarch64, whose processor is emulated, has no time for more.
inline std::size_t state_stride() {
  static const std::size_t stride = [] {
    const char* text = std::getenv("CAIRN_STATE_STRIDE");
    return text ? std::max(std::strtoull(text, nullptr, 10), 1ull) : 1;
  }();
  return stride;
}

/// Rank counts, where each from 1 to 7 is tried.
inline std::vector<int> rank_counts() {
  if (sanitized) return {1, 2, 5};
  return {1, 2, 3, 4, 5, 6, 7};
}

}  // namespace cairn::test
