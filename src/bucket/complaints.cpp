#include "bucket/complaints.hpp"

#include <algorithm>

#include "cairn/log.hpp"

namespace cairn::bucket {

void Complaints::failed(bool is_first, const std::string& line) {
  using namespace std::chrono_literals;
  const auto now = Clock::now();
  {
    const MutexLock guard(mutex_);
    if (is_first) ++waiting_;
    if (now - last_ < pause_) return;
    last_ = now;
    pause_ = std::clamp<Clock::duration>(2 * pause_, 30s, 1h);
    told_ = true;
  }
  log(LogLevel::warning, line);
}

void Complaints::ended(bool is_answered, const std::string& line) {
  {
    const MutexLock guard(mutex_);
    if (--waiting_ > 0 || !std::exchange(told_, false) || !is_answered) return;
  }
  log(LogLevel::warning, line);
}

void Complaints::note(bool is_answered) {
  const MutexLock guard(mutex_);
  gave_up_ = !is_answered;
}

bool Complaints::has_given_up() const {
  const MutexLock guard(mutex_);
  return gave_up_;
}

}  // namespace cairn::bucket
