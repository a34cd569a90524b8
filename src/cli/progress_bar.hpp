#pragma once
#include <chrono>
#include <string>

#include "tools/progress.hpp"

namespace cairn::cli {

/// A bar on standard error, if that is a terminal and the work takes longer than half a second. The
/// destructor erases it.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::int64_t done, std::int64_t total);
  /// For functions that report their progress. The result refers to this object.
  Progress callback();

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool wanted_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now(), next_;
};

}  // namespace cairn::cli
