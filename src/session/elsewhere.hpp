#pragma once
/// Where a manager's checkpoints are beside its directory: what an engine asks of such a place.
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
  std::vector<std::string> why;  // of those elsewhere
  std::set<std::string> saves;   // there, by uuid, also what was taken
  std::set<std::int64_t> steps;  // in the directory
  // Wherever they are, and why; "": that is told.
  std::map<std::int64_t, std::string> sequences = {};
};

/// Collective, but for what is marked.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  /// Nothing: the save is to go to the directory.
  virtual std::optional<SaveHandle> save(const SaveRequest&) = 0;
  /// Something else goes there: what is on its way from here ends.
  virtual void make_way() = 0;
  /// What is newer than all that is in the directory, or of this step; nothing: there is none, or
  /// it cannot be had, which is added to what is passed over. What damaged ones have written to is
  /// added to `failed`.
  virtual std::optional<RestoreReport> restore(State&, const RestoreOptions&,
                                               std::optional<std::int64_t> step, Touched& failed,
                                               PassedOver&) = 0;
  /// Local, on all ranks alike. A save was committed in the directory; `is_from_here`: it came from
  /// this place.
  virtual void committed(const CheckpointMeta&, bool is_from_here) = 0;
  /// The same. The run goes on from this sequence in the directory; -1: from one without.
  virtual void went_back_to(std::int64_t sequence) = 0;
};

}  // namespace cairn
