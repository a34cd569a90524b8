#pragma once
/// When CheckpointManager::should_save says yes.
#include <cstdint>
#include <optional>

namespace cairn {

/// The mean time between failures of the job.
struct Mtbf {
  enum class Of { job, node, learnt } of = Of::job;
  double seconds = 0;

  static Mtbf job(double seconds) { return {Of::job, seconds}; }
  /// Of one node: the job's is this divided by the number of its nodes.
  static Mtbf per_node(double seconds) { return {Of::node, seconds}; }
  /// From the runs in this directory, as DIRECTORY/.cairn/runs.NAME remembers them: (first_guess +
  /// time of all runs) / (1 + failures). A run that ended without its manager's destructor, or
  /// while an exception was on its way, has failed; one that never saved does not count. The guess
  /// is for the job.
  static Mtbf learnt(double first_guess_seconds = 24 * 3600.0) {
    return {Of::learnt, first_guess_seconds};
  }
};

/// A save is due when any of these members says so; none given: never. Times are rank 0's.
struct SaveInterval {
  /// When a multiple of it is reached or passed.
  std::int64_t steps = 0;
  /// When nothing was saved for so long.
  double seconds = 0;
  /// When optimal_interval(cost, mtbf) has passed since the last save, or as long as the last saves
  /// took until they were durable, if that is longer. cost: the time that a save holds the
  /// application, and what an asynchronous one slows it: how much longer steps take while it is in
  /// flight, by rank 0's clock between two should_save or should_stop. Until a save was measured,
  /// the cost is what the newest checkpoint records, or else one second.
  std::optional<Mtbf> optimal_for = std::nullopt;
};

inline SaveInterval every_steps(std::int64_t steps) { return {.steps = steps}; }
inline SaveInterval every_seconds(double seconds) { return {.seconds = seconds}; }
inline SaveInterval optimal(Mtbf mtbf) { return {.optimal_for = mtbf}; }
inline SaveInterval optimal(double mtbf_seconds) { return optimal(Mtbf::job(mtbf_seconds)); }

}  // namespace cairn
