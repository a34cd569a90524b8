// Engines of Checkpoint objects: found by group and prefix, opened anew if the options have
// changed.
#include "session/shared_engines.hpp"

#include <array>
#include <optional>
#include <type_traits>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "group/collectives.hpp"
#include "session/pending_saves.hpp"
#include "session/save/plans.hpp"

namespace cairn {
namespace {

template <class T>
constexpr bool is_shared = false;
template <class T>
constexpr bool is_shared<std::shared_ptr<T>> = true;

// A visitor of options (cairn/options.hpp).
// Functions and other values that cannot be compared stand for their user. If they are empty, they
// are the same for all users.
struct SettingsText {
  std::string& text;
  std::uint64_t user;

  template <class T>
  void any(const char* name, const T& value) {
    text += cat(name, '=');
    if constexpr (is_shared<T>) {
      text += cat(value.get());
    } else if constexpr (std::is_enum_v<T>) {
      text += cat(static_cast<int>(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      text += cat(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      text += value;
    } else if constexpr (std::is_same_v<T, PathText>) {
      text += value.string();
    } else if constexpr (requires { value.empty(); }) {
      if (!value.empty()) text += cat("of ", user);
    } else if constexpr (requires { static_cast<bool>(value); }) {
      if (static_cast<bool>(value)) text += cat("of ", user);
    } else {
      text += cat("of ", user);
    }
    text += ' ';
  }
  template <class T>
  void agreed(const char* name, const T& value) {
    any(name, value);
  }
  template <class T>
  void validated(const char* name, const T& value) {
    any(name, value);
  }
  template <class T>
  void own(const char* name, const T& value) {
    any(name, value);
  }
  template <class T>
  void group(const char*, const T& options) {
    T::visit(options, *this);
  }
};

}  // namespace

std::string settings_text(const ManagerOptions& options, std::uint64_t user) {
  std::string text;
  ManagerOptions::visit(options, SettingsText{text, user});
  return text;
}

std::shared_ptr<SharedEngines> SharedEngines::of(std::shared_ptr<Group> group) {
  static Mutex mutex;
  static std::map<Group*, std::weak_ptr<SharedEngines>> all CAIRN_GUARDED_BY(mutex);
  const MutexLock guard(mutex);
  std::erase_if(all, [](const auto& one) { return one.second.expired(); });
  auto& known = all[group.get()];
  if (auto there = known.lock()) return there;
  auto made = std::make_shared<SharedEngines>(std::move(group));
  known = made;
  return made;
}

std::shared_ptr<EngineSlot> SharedEngines::slot(const std::string& key) {
  std::erase_if(slots_, [](const auto& one) { return one.second.expired(); });
  auto& known = slots_[key];
  if (auto there = known.lock()) return there;
  auto made = std::make_shared<EngineSlot>(EngineSlot{key});
  known = made;
  return made;
}

// Leaving a name completes its pending saves, since nobody might come back to that engine to do so.
Engine& SharedEngines::use(std::shared_ptr<EngineSlot>& held, std::uint64_t user,
                           const io::Path& prefix, bool is_numbered,
                           const ManagerOptions& options) {
  // A prefix in another file system is another checkpoint. A numbered and a single one of the same
  // prefix have different files.
  const auto key =
      cat(is_numbered ? "numbered " : "single ",
          static_cast<const void*>(options.write.file_system.get()), ' ', prefix.string());
  // The same state is saved next under another name, so its samples of replicas go on from here,
  // and in this directory also what saves took.
  std::optional<Plans::Comparisons> before;
  std::shared_ptr<EncodeChoice> encode_choice;
  const auto complete = [&](Engine& engine) {
    before = engine.parts().plans.comparisons();
    const auto& job = engine.parts().job;
    if (job.directory == prefix.parent_path()) encode_choice = job.encode_choice;
    engine.complete_pending();
    engine.parts().pending_saves.throw_earlier_failure_instead_of(-1);
  };
  if (held && held->key != key) {
    const auto left = std::move(held);
    held.reset();
    if (left->engine) complete(*left->engine);
  }
  if (!held) held = slot(key);
  auto& slot = *held;
  // The usual case needs no message: which engine there is, and which Checkpoint has used it last,
  // is the same on all ranks.
  if (slot.engine && slot.user == user) return *slot.engine;
  const auto settings = settings_text(options, user);
  // If the options have changed on one rank, all ranks open the engine anew.
  std::array<std::int64_t, 2> counts{!slot.engine, slot.settings != settings};
  group_->all_reduce(counts, Group::Op::sum);
  const auto [missing, differing] = counts;
  if (missing == 0 && differing > 0) complete(*slot.engine);
  if (missing > 0 || differing > 0) {
    slot.engine.reset();
    group_->barrier();  // until rank 0 has given up the directory
    auto mine = options;
    mine.overwrite |= !is_numbered;
    auto job = make_job(group_, prefix.parent_path(),
                        commit::Naming(prefix.filename().string(), is_numbered), std::move(mine));
    job.keeps_state_file = is_numbered;
    job.options_name = "CheckpointOptions";
    if (encode_choice) job.encode_choice = std::move(encode_choice);
    auto next = std::make_unique<Engine>(std::move(job));
    next->open();
    if (before) next->parts().plans.go_on_from(*before);
    slot.engine = std::move(next);
    slot.settings = settings;
  }
  slot.user = user;
  return *slot.engine;
}

}  // namespace cairn
