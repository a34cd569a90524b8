#pragma once
/// What an operator does between two jobs: repairs of checkpoints that were copied, exchanged or
/// lost, and conversions that leave a step in two formats.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lab/campaigns/programs/crash_plan.hpp"
#include "testing/memory.hpp"

namespace cairn::campaign {

/// The operations that an errand has made on the disk, as numbers.
struct ErrandDone {
  std::size_t begin = 0, end = 0;
  bool damages = false;  ///< after a power failure in between, only a repair helps
  bool puts_beside = false;
  std::int64_t step = -1, stamp = 0;  ///< of which a copy in the other format was put beside
  bool required = true;               ///< that copy may not be gone
};

/// Runs the errand in /run. `wrong` gets what must not be.
ErrandDone run_errand(const Plan&, const std::shared_ptr<io::MemoryFileSystem>&, const Errand&,
                      std::string& wrong);

/// Runs cairn verify --repair on everything there, after an owner has recovered what jobs have
/// left. Returns false if some steps have files of several saves, and nothing tells which was the
/// last: all of these files stay.
bool mend(const Plan&, const std::shared_ptr<io::MemoryFileSystem>&, std::string& wrong);

/// The stamp of a step, as a reader finds it; 0 if there is none.
std::int64_t stamp_of(const Plan&, const std::shared_ptr<io::MemoryFileSystem>&, std::int64_t step);

}  // namespace cairn::campaign
