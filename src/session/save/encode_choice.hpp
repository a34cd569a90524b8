#pragma once
/// Whether a rank encodes the chunks of a save (StoreCodec::automatic).
#include <array>
#include <cstdint>

#include "base/mutex.hpp"

namespace cairn {

/// What saves of this rank took, those that encoded and those that did not. The first save encodes,
/// the second does not; then the faster way is taken, and now and then the other one, since a file
/// system is not always equally busy. Any thread.
class EncodeChoice {
 public:
  /// For the next save.
  bool encodes();
  void took(bool encoded, double seconds, std::int64_t raw_bytes);

  static constexpr int saves_a_trial = 16;

 private:
  Mutex mutex_;
  int saves_ CAIRN_GUARDED_BY(mutex_) = 0;
  // Seconds a raw byte, by whether it was encoded; negative: unknown.
  std::array<double, 2> cost_ CAIRN_GUARDED_BY(mutex_) = {-1, -1};
};

}  // namespace cairn
