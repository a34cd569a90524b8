#pragma once
/// Checks what a restart makes of a disk that a crash has left.
#include <cstdint>
#include <map>

#include "lab/campaigns/programs/crash_job.hpp"
#include "lab/campaigns/programs/random.hpp"

namespace cairn::campaign {

/// Chooses at random which of the operations that were not durable arrived; a write may be torn at
/// a multiple of 512 bytes.
io::CrashChoice choose_crash(const io::MemoryFileSystem&, std::size_t stop, Random&);

/// Steps that exist in two formats, as long as they have this stamp. A step of which only a part
/// has been removed may lack the other format.
struct Both {
  std::int64_t stamp = 0;
  bool required = true;
};
using Twice = std::map<std::int64_t, Both>;

/// Restarts on the disk, which may be changed, and looks at everything. Then saves once more, lets
/// the power fail and restarts again, if asked to. `wrong` gets what must not be, except what the
/// ledger checks.
Found restart(const Plan&, std::shared_ptr<io::MemoryFileSystem>, const Twice&, Random&,
              bool saves_more, std::string& wrong);

/// A restart that meets read errors at the opening and then saves, if it can. Then the power fails,
/// and a restart without errors must find that save, or what the ledger allows.
std::string restart_badly(const Plan&, std::shared_ptr<io::MemoryFileSystem>, const Twice&,
                          const Ledger&, Random&);

/// A restart that is killed at any operation, or ends; then the power fails. Returns the disk
/// afterwards, and the newest stamp that was restored before that moment; empty if there was none.
std::shared_ptr<io::MemoryFileSystem> restart_and_crash(const Plan&,
                                                        std::shared_ptr<io::MemoryFileSystem>,
                                                        Random&, std::optional<std::int64_t>& seen,
                                                        std::string& how, std::string& wrong);

}  // namespace cairn::campaign
