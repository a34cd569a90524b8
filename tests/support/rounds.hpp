#pragma once
/// How often a random test tries again.

namespace cairn::test {

/// Sanitizers look at the code, not at all cases: an eighth of them shows it.
constexpr int rounds(int all) {
#ifdef CAIRN_SANITIZED
  return all < 8 ? 1 : all / 8;
#else
  return all;
#endif
}

}  // namespace cairn::test
