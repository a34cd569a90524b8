#pragma once
/// Which checkpoints go, and their removal.
#include <optional>
#include <string>
#include <vector>

#include "cairn/retention.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/recycled.hpp"
#include "store/commit/staging_directory.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/pins.hpp"

namespace cairn {

/// A pure function, one decision an entry, in their order. What stays: the newest that can be
/// restored; the Retention::last (0: all), where live ones count first, newest first, then
/// superseded ones, then damaged ones; what is pinned; what the rules protect. Others' checkpoints
/// and what could not be read now are neither counted nor removed.
///
/// Live ones come first, so that a return to an earlier step never pushes out the line that it
/// continues. The rules also protect checkpoints of lines that were left, since a removal cannot be
/// undone. What this lets go never changes what it would keep for ever.
std::vector<RetentionDecision> decide_retention(const std::vector<CatalogEntry>&, const Retention&);

/// Tensors that rules by key let go of a checkpoint. Pure, too; ascending as the entries are. Those
/// that have been let go already are not told again.
struct ThinDecision {
  std::int64_t step = 0;
  std::vector<std::string> keys;  ///< patterns
};
std::vector<ThinDecision> decide_thinning(const std::vector<CatalogEntry>&, const Retention&);

/// The rules as checkpoints note them, "last=3 every_steps=100", and back; nothing for other text.
std::string text_of(const Retention&);
std::optional<Retention> retention_of(const std::string& text);

/// Which steps go, decided once, and the pins' lock, held from the decision until they are gone.
struct Expiry {
  std::vector<std::int64_t> steps;
  std::optional<PinLock> lock;  ///< none: somebody pins right now, and nothing is removed
  /// What it would leave of the catalog.
  std::vector<CatalogEntry> without(std::vector<CatalogEntry>) const;
};
/// Looks at the pins, of which the entries are told, unless nothing would go without any.
Expiry decide_expiry(const Location&, std::vector<CatalogEntry>&, const Retention&,
                     PinLock::File* = nullptr);

std::vector<std::int64_t> steps_of(const std::vector<CatalogEntry>&);

/// What an owner knows that has just committed: it saves looks.
struct RetentionHelp {
  /// Bundles' data files are kept for the next save.
  commit::Waiting* recycled = nullptr;
  /// Where the data of the one checkpoint that goes may stay for that, it is told here.
  std::optional<commit::LeftData>* left = nullptr;
  /// The steps of which the state file tells, if they are known.
  std::optional<std::vector<std::int64_t>> told = std::nullopt;
  /// Whether there may be notes of checkpoints of this name.
  bool notes = true;
  /// What was decided before the state file was written; null: it is decided now.
  const Expiry* expiry = nullptr;
  /// What is in the directory but for the files of `committed`; null: it is listed.
  const std::vector<std::string>* listing = nullptr;
  /// A step that this owner has just committed, durably, and needs no look; -1: none.
  std::int64_t committed = -1;
  /// Where indexes are set aside when their data stay.
  commit::Staging* staging = nullptr;
};

/// Removes what is not to stay, from the disk and from the catalog. The state file goes first, so
/// that it never names what is half removed. Nothing is removed before the newest that stays was
/// seen on the disk. Pins that others made in the meantime are respected;
/// while somebody is making one, nothing is removed: the next time will do. What another owner has
/// saved under the same step stays. Throws busy if the directory is no longer this owner's. Returns
/// what went.
std::vector<std::int64_t> apply_retention(const Location&, std::vector<CatalogEntry>&,
                                          const Retention&, const commit::Ownership&,
                                          const RetentionHelp& = {});

/// For a save that lacks room: what its user can do, in words.
std::string how_to_make_room(const io::Path& directory, const std::vector<CatalogEntry>&,
                             const Retention&);

}  // namespace cairn
