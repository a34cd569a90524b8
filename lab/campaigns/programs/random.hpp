#pragma once
/// Random numbers that depend only on a seed, on every machine.
#include <cstdint>

namespace cairn::campaign {

class Random {
 public:
  /// Neighbouring seeds give unrelated numbers.
  explicit Random(std::uint64_t seed) : state_(mixed(seed ^ 0x5851f42d4c957f2du)) {}
  std::uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15u); }
  /// 0 … count - 1; 0 if there is nothing to choose from.
  int below(int count) {
    return count < 2 ? 0 : static_cast<int>(next() % static_cast<std::uint64_t>(count));
  }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool one_in(int count) { return below(count) == 0; }

 private:
  static std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace cairn::campaign
