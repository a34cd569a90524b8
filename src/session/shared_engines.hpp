#pragma once
/// What the Checkpoints of one group share: one engine for each name in a directory, with one
/// catalog, sequence and plan, whichever Checkpoint saves. A directory has one owner, whose catalog
/// and sequence are in memory. If each Checkpoint opened the directory, there would be several
/// owners. Engines are found by the Group, since that is what all ranks have in common.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "session/engine.hpp"

namespace cairn {

/// The engine of one name, and which Checkpoint used it last.
struct EngineSlot {
  std::string key;
  std::unique_ptr<Engine> engine = nullptr;  ///< null: not opened yet
  std::uint64_t user = 0;
  std::string settings = "";  ///< with which it was opened (settings_text)
};

class SharedEngines {
 public:
  /// Not collective. Returns the engines of this group. Ranks that are threads have groups of their
  /// own.
  static std::shared_ptr<SharedEngines> of(std::shared_ptr<Group>);
  explicit SharedEngines(std::shared_ptr<Group> group) : group_(CallGroup::of(std::move(group))) {}

  const std::shared_ptr<CallGroup>& group() const { return group_; }
  std::uint64_t new_user() { return ++users_; }

  /// Collective. Returns the engine for checkpoints of this prefix, numbered or not; `held` then
  /// keeps it. Completes the pending saves of the engine that `held` kept before, and leaves it. An
  /// engine that was opened with other options is closed and opened again with these. Throws what
  /// opening throws, and the failure of a pending save.
  Engine& use(std::shared_ptr<EngineSlot>& held, std::uint64_t user, const io::Path& prefix,
              bool is_numbered, const ManagerOptions&);

 private:
  std::shared_ptr<EngineSlot> slot(const std::string& key);

  std::shared_ptr<CallGroup> group_;
  std::map<std::string, std::weak_ptr<EngineSlot>> slots_;  // end with their last user
  std::uint64_t users_ = 0;
};

/// Options with the same text have the same effect. Functions cannot be compared, so options with
/// functions differ for each user. A pointer stands for what it points to, since the engine keeps
/// that alive.
std::string settings_text(const ManagerOptions&, std::uint64_t user);

}  // namespace cairn
