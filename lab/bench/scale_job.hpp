#pragma once
/// Saves and restores of a simulated job, by the library's own code.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cairn/state.hpp"
#include "cairn/write_options.hpp"
#include "lab/bench/scale_record.hpp"

namespace cairn::bench {

struct ScaleJob {
  std::string state;  ///< one of scale_states()
  int ranks = 64;
  MachineOptions machine = {};
  IoRanks io_ranks = IoRanks::automatic();
  int repetitions = 2;  ///< of steady saves, of which the shortest counts
  bool async = false;
  bool restores = false;                                 ///< on as many ranks, and on half as many
  Storage storage = Storage::automatic;                  ///< of all tensors
  std::int64_t (*take_most_memory)(int rank) = nullptr;  ///< null: memory is not counted
};

struct ScaleCall {
  std::string what;
  int ranks;  ///< that have saved
  std::vector<ScaleRow> rows;
  const ScaleRow& row(const std::string& stage) const;  ///< throws not_found
};

/// "first save", "steady save", and if asked for "save_async" (until it returns), "wait" (until the
/// bytes are durable), "open" (a new manager), "restore", "restore on half". Each is given to
/// `take` as soon as it has been made; of several with one name the last counts, which is never
/// slower.
void simulate(const ScaleJob&, const std::function<void(const ScaleCall&)>& take);

}  // namespace cairn::bench
