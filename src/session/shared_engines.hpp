#pragma once
/// What the Checkpoints of one group have in common: for each name in a directory one engine, with
/// one catalog, sequence and plan, whichever of them saves. A directory has one owner, whose
/// catalog and sequence are in memory: objects that each opened it would be several owners. The
/// engine is found by the Group, since that is what all ranks have in common.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "session/engine.hpp"

namespace cairn {

/// The engine of one name, and who used it last.
struct EngineSlot {
  std::string key;
  std::unique_ptr<Engine> engine = nullptr;  ///< null: it is to be opened
  std::uint64_t user = 0;
  std::string settings = "";  ///< that it was opened with (settings_text)
};

class SharedEngines {
 public:
  /// The one of this group. Not collective; ranks that are threads have groups of their own.
  static std::shared_ptr<SharedEngines> of(std::shared_ptr<Group>);
  explicit SharedEngines(std::shared_ptr<Group> group) : group_(CallGroup::of(std::move(group))) {}

  const std::shared_ptr<CallGroup>& group() const { return group_; }
  std::uint64_t new_user() { return ++users_; }

  /// Collective. The engine for checkpoints of this prefix, numbered or not, which `held` then
  /// keeps; what it kept before is left, after its pending saves completed. An engine that was
  /// opened with other options is closed, and opened anew with these. Throws what opening throws,
  /// and the failure of a pending save.
  Engine& use(std::shared_ptr<EngineSlot>& held, std::uint64_t user, const io::Path& prefix,
              bool is_numbered, const ManagerOptions&);

 private:
  std::shared_ptr<EngineSlot> slot(const std::string& key);

  std::shared_ptr<CallGroup> group_;
  std::map<std::string, std::weak_ptr<EngineSlot>> slots_;  // they end with their last user
  std::uint64_t users_ = 0;
};

/// Options with the same text do the same: functions, which cannot be compared, make those of each
/// user different. Pointers stand for what they point to, while an engine keeps that.
std::string settings_text(const ManagerOptions&, std::uint64_t user);

}  // namespace cairn
