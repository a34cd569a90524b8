#pragma once
/// What an engine asks of a place, other than its directory, where it also has checkpoints.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "session/restore/restore.hpp"

namespace cairn {

class SaveHandle;
struct SaveRequest;

/// What one restore does not try again.
struct PassedOver {
  std::vector<std::string> why;  // reasons, for checkpoints elsewhere
  std::set<std::string> saves;   // uuids of those elsewhere, also of what was taken
  std::set<std::int64_t> steps;  // of checkpoints in the directory
  // By sequence, wherever they are: the reason; "": the reason is reported already.
  std::map<std::int64_t, std::string> sequences = {};
};

/// Members are collective unless marked.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  /// Returns nothing if the save must go to the directory.
  virtual std::optional<SaveHandle> save(const SaveRequest&) = 0;
  /// Called before a save that goes to the directory. Cancels copies from here to the directory.
  virtual void make_way() = 0;
  /// Restores what is newer than everything in the directory, or this step. Returns nothing if
  /// there is no such checkpoint, or if it cannot be restored; it is then added to what is passed
  /// over. What damaged checkpoints have written to is added to `failed`.
  virtual std::optional<RestoreReport> restore(State&, const RestoreOptions&,
                                               std::optional<std::int64_t> step, Touched& failed,
                                               PassedOver&) = 0;
  /// Local, called on all ranks alike. A save was committed in the directory. `is_from_here`: it
  /// was copied there from this place.
  virtual void committed(const CheckpointMeta&, bool is_from_here) = 0;
  /// Local, called on all ranks alike. The run continues from this sequence in the directory; -1:
  /// from a checkpoint without one.
  virtual void went_back_to(std::int64_t sequence) = 0;
};

}  // namespace cairn
