#pragma once
/// What follows a commit, steps 7 and 8 of the protocol: the state file, the XDMF file, notes, and
/// what retention lets go.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/commit/ownership.hpp"
#include "store/commit/protocol.hpp"
#include "store/commit/staging_directory.hpp"
#include "store/commit/state_file.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/recycling.hpp"
#include "store/directory/retention.hpp"
#include "store/directory/xdmf_file.hpp"
#include "store/location.hpp"

namespace cairn {

/// What an owner has in its directory. Ends in the order in which things need each other.
struct Owned {
  explicit Owned(const Location& place) : recycling(place) {}

  std::optional<commit::OwnedName> name;
  std::optional<commit::Staging> staging;
  Recycling recycling;

  /// Whether the save goes through the staging directory that is there.
  bool is_in_staging(const commit::Transaction& save) const {
    return staging && !save.staging.empty() && save.staging == staging->uuid();
  }
  /// Nobody will complete this save. What cannot be removed of it is known to be ours by the
  /// directory beside it.
  void abandon(io::FileSystem& files, const commit::Transaction& save) {
    const bool gone = commit::abandon(files, save, name->ownership());
    if (!gone && is_in_staging(save)) staging->leave();
  }
};

/// Rank 0's. In one thread's hands at a time: whoever tells the state file also tidies, or ends
/// before.
class Upkeep {
 public:
  /// All of these outlive it.
  Upkeep(const Location& place, const Policy& policy, Owned& owned)
      : place_(place), policy_(policy), owned_(owned) {}

  /// When the catalog has been read: brings notes, state file and XDMF file up to date.
  void begin(const std::vector<CatalogEntry>&);
  void end() { xdmf_.reset(); }

  /// `stages`: a save that leaves it to what follows to sync the file.
  void write_state_file(const std::vector<CatalogEntry>&,
                        const commit::Transaction* stages = nullptr);
  /// Step 7: tells the state file, as retention is going to leave the directory; nobody pins or
  /// unpins as long as the expiry lives. An Error is logged.
  Expiry tell(const commit::Transaction&, std::vector<CatalogEntry>&);
  /// Step 8: removes what the save replaced and what was decided to go, from the catalog too.
  /// `leaves_data`: what a next save like this one can overwrite stays where it is. `listing`: what
  /// was in the directory when the save began. `recycled`: where files wait; null: nowhere.
  void tidy(const commit::Transaction&, std::vector<CatalogEntry>&, const Expiry&, bool leaves_data,
            std::optional<std::vector<std::string>> listing, commit::Waiting* recycled);
  /// Before a save, which lacks room: of what retention lets go what `spares` does not keep. How
  /// many have gone.
  std::size_t remove_surplus(std::vector<CatalogEntry>&,
                             const std::function<void(std::vector<std::int64_t>&)>& spares);

 private:
  void update_xdmf(const std::vector<CatalogEntry>&);
  void thin_by_rules(std::int64_t step, std::vector<CatalogEntry>&, const Expiry&);

  const Location& place_;
  const Policy& policy_;
  Owned& owned_;
  std::optional<XdmfFile> xdmf_;
  PinLock::File pin_file_;                         // outlives those who hold its lock
  bool state_file_fails_ = false;                  // as has been told
  bool notes_ = true;                              // whether there may be any of this name
  std::optional<std::vector<std::int64_t>> told_;  // the steps in the state file, if they are known
  std::optional<commit::StateFile> state_file_;    // as this owner has written it last
  // Saves, and rules, of which nothing more is to be let go: there was nothing, or it failed.
  std::set<std::pair<std::string, std::string>> thinned_;
};

}  // namespace cairn
