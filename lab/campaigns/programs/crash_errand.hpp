#pragma once
/// What an operator does between two jobs: repairs of what was copied, exchanged or lost, and
/// checkpoints in two formats.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lab/campaigns/programs/crash_plan.hpp"
#include "testing/memory.hpp"

namespace cairn::campaign {

/// What an errand has done to the disk, in numbers of operations.
struct ErrandDone {
  std::size_t begin = 0, end = 0;
  bool damages = false;  ///< a power failure in between leaves what only a repair mends
  bool puts_beside = false;
  std::int64_t step = -1, stamp = 0;  ///< of which a copy in the other format was put beside
  bool required = true;               ///< that copy may not be gone
};

/// Runs it in /run. `wrong` is what must not be.
ErrandDone run_errand(const Plan&, const std::shared_ptr<io::MemoryFileSystem>&, const Errand&,
                      std::string& wrong);

/// cairn verify --repair of all that is there, when an owner has settled what jobs have left.
/// False: of some there are files of several saves, and nothing tells which was the last: all of
/// them stay.
bool mend(const Plan&, const std::shared_ptr<io::MemoryFileSystem>&, std::string& wrong);

/// The stamp of a step that is there, as a reader finds it; 0: none.
std::int64_t stamp_of(const Plan&, const std::shared_ptr<io::MemoryFileSystem>&, std::int64_t step);

}  // namespace cairn::campaign
