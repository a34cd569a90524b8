#pragma once
/// How long the runs in a directory lived, and how they ended: .cairn/runs.NAME.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/location.hpp"

namespace cairn {

/// At most so many runs one by one; older ones are added up. The file stays below 8 KiB.
struct RunHistory {
  static constexpr std::size_t most_runs = 64;
  struct Run {
    double start = 0, lived = 0;  ///< seconds since 1970; seconds
    enum class End { open, well, failed } end = End::open;
    bool counts_as_failure() const { return end == End::failed && lived > 0; }
    bool operator==(const Run&) const = default;
  };
  double earlier_seconds = 0;
  std::int64_t earlier_failures = 0;
  std::vector<Run> runs;  ///< oldest first
  bool operator==(const RunHistory&) const = default;

  /// A new run begins; what is open has failed, and lived at least until its last checkpoint. One
  /// that never saved tells nothing: neither how long it lived, nor whether it ever could run.
  void begin(double now, double newest_checkpoint);
  void end_well(double now);  ///< of the last one
  /// (first_guess + time lived) / (1 + failures of those that lived)
  double mtbf(double first_guess) const;

  std::string print() const;  ///< text, under a checksum
  /// Nothing for what print() did not write.
  static std::optional<RunHistory> parse(std::string_view text);
};

/// Rank 0's, as the directory's owner. What fails is logged: a history is worth no failure.
class RunRecorder {
 public:
  explicit RunRecorder(const Location&, std::function<void()> check_owner = nullptr);
  void begin(double now, double newest_checkpoint);  ///< durable on return, as are ends
  /// Asks for the time. Nothing is written where another process owns the directory now.
  void end_well(const std::function<double()>& now) noexcept;
  const RunHistory& history() const { return history_; }

 private:
  void write() const;
  std::function<void()> check_owner_;
  Address file_;
  bool atomic_rename_;
  std::int64_t begun_by_ = -1;  // process; a forked child's copy records nothing
  RunHistory history_;
};

}  // namespace cairn
