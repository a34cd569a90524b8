#pragma once
/// How many cases a test tries. Sanitizers test the code, not all cases: where each case runs the
/// same code, they take only some. Without sanitizers all are tried, except crash states, of which
/// there are hundreds of thousands.
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

/// How many random cases: with sanitizers an eighth.
template <class Count>
constexpr Count rounds(Count all) {
  if (!sanitized) return all;
  return all < 8 ? 1 : all / 8;
}

/// The step through a list of cases: 1, or `some` with sanitizers.
constexpr std::size_t stride(std::size_t some) { return sanitized ? some : 1; }

/// Whether CAIRN_ALL_STATES is set, as scripts/campaign states does: then every crash state is
/// tried, which takes several times as long.
inline bool all_states() {
  static const bool all = std::getenv("CAIRN_ALL_STATES") != nullptr;
  return all;
}

/// The step through a list of crash states: `some`, or `few` with sanitizers.
inline std::size_t state_step(std::size_t some, std::size_t few) {
  return all_states() ? 1 : sanitized ? few : some;
}

/// With CAIRN_STATE_STRIDE=N only every Nth crash state is tried of those that would be.
/// scripts/lane aarch64 emulates its processor and has no time for more.
inline std::size_t state_stride() {
  static const std::size_t stride = [] {
    const char* text = std::getenv("CAIRN_STATE_STRIDE");
    return text ? std::max(std::strtoull(text, nullptr, 10), 1ull) : 1;
  }();
  return stride;
}

/// The rank counts where each from 1 to 7 is tried.
inline std::vector<int> rank_counts() {
  if (sanitized) return {1, 2, 5};
  return {1, 2, 3, 4, 5, 6, 7};
}

}  // namespace cairn::test
