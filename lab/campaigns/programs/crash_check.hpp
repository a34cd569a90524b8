#pragma once
/// What a restart makes of a disk as a crash has left it.
#include <cstdint>
#include <map>

#include "lab/campaigns/programs/crash_job.hpp"
#include "lab/campaigns/programs/random.hpp"

namespace cairn::campaign {

/// A random choice of what arrived of the operations that were not durable; a write may be torn at
/// a multiple of 512 bytes.
io::CrashChoice choose_crash(const io::MemoryFileSystem&, std::size_t stop, Random&);

/// Steps that are there in two formats, as long as they have this stamp. One of which only a part
/// has been removed may lack the other format.
struct Both {
  std::int64_t stamp = 0;
  bool required = true;
};
using Twice = std::map<std::int64_t, Both>;

/// Restarts on the disk, which may be changed, and looks at all. Then saves once more, lets the
/// power fail and restarts again, if asked to. `wrong` is what must not be but for what the ledger
/// knows.
Found restart(const Plan&, std::shared_ptr<io::MemoryFileSystem>, const Twice&, Random&,
              bool saves_more, std::string& wrong);

/// A restart that meets read errors at the opening and then saves, if it can. Then the power fails,
/// and one without errors must find that save, or what the ledger knows.
std::string restart_badly(const Plan&, std::shared_ptr<io::MemoryFileSystem>, const Twice&,
                          const Ledger&, Random&);

/// A restart that is killed at any operation, or ends; then the power fails. The disk afterwards,
/// and the newest stamp that it restored at a moment before that; nothing: none.
std::shared_ptr<io::MemoryFileSystem> restart_and_crash(const Plan&,
                                                        std::shared_ptr<io::MemoryFileSystem>,
                                                        Random&, std::optional<std::int64_t>& seen,
                                                        std::string& how, std::string& wrong);

}  // namespace cairn::campaign
