#pragma once
/// Which checkpoints the name of a file, a prefix or a directory means. By one process.
#include <vector>

#include "store/address.hpp"
#include "store/contents/standing.hpp"

namespace cairn {

/// Of cairn gc DIRECTORY --dry-run, where a list of checkpoints is empty.
inline constexpr const char* what_gc_tells = "tells what unfinished saves have left";

/// The checkpoint that PREFIX, PREFIX.index, PREFIX.h5 or a directory names. Of a directory the
/// newest, as cairn ls and a restore have it: where the one that the state file names is damaged,
/// the newest that is not, with a warning. Throws not_found, which says what else lies there, and
/// data_loss for what was lost.
Address resolve_checkpoint(const Address&);

/// Whether `given` names another checkpoint than this by now, as a directory does when the job that
/// saves there has gone on: what could not be read of this one may be gone.
bool names_another(const Address& given, const Address& prefix);

/// As resolve_checkpoint(), but all of a directory's checkpoints, the damaged and the lost too.
std::vector<Address> resolve_checkpoints(const Address&);

/// Made before a checkpoint is read that `given` names.
class Still {
 public:
  Still(const Address& given, const Address& prefix)
      : given_(given), prefix_(prefix), before_(standing_of(prefix)) {}
  /// Whether `given` names the same save since then. If not, a failure is no damage.
  bool is_the_one() const;
  /// After damage was found: throws not_found if not.
  void require() const;

 private:
  Address given_, prefix_;
  Standing before_;
};

}  // namespace cairn
