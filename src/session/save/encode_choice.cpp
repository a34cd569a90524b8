#include "session/save/encode_choice.hpp"

namespace cairn {

bool EncodeChoice::encodes() {
  const MutexLock lock(mutex_);
  const auto number = saves_++;
  if (cost_[1] < 0) return true;
  if (cost_[0] < 0) return false;
  const bool pays = cost_[1] < cost_[0];
  return number % saves_a_trial == 0 ? !pays : pays;
}

void EncodeChoice::took(bool encoded, double seconds, std::int64_t raw_bytes) {
  const MutexLock lock(mutex_);
  if (raw_bytes > 0) cost_[encoded ? 1 : 0] = seconds / static_cast<double>(raw_bytes);
}

}  // namespace cairn
