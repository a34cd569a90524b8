#pragma once
/// Who wrote a checkpoint, and whether this program can read it.
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

class State;
struct RestoreOptions;

/// The program that saves, as StoreOptions tells it; the same on all ranks. Empty: it does not say.
struct Application {
  std::string name = {};
  /// Numbers and words between dots, dashes or plus signs: 1.9 comes before 1.10, and 2.0-rc1
  /// before 2.0. A leading v does not count.
  std::string version = {};
  std::string commit = {};  ///< of its source

  bool operator==(const Application&) const = default;
  bool empty() const { return *this == Application{}; }

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& options) {
    auto& [name, version, commit] = self;
    options.agreed("name", name);
    options.agreed("version", version);
    options.agreed("commit", commit);
  }
};

/// Whether version `a` comes behind `b`.
bool is_newer_version(const std::string& a, const std::string& b);

/// Whose checkpoints a restore takes: those of these versions (`*` at the end stands for anything:
/// "2.*") and of its own, or those of which a function says so, which is called on all ranks and
/// must say the same on each. Neither given: of its own version and of older ones, and of programs
/// that do not say.
struct Accept {
  Accept() = default;
  Accept(std::initializer_list<std::string> versions) : versions(versions) {}
  Accept(std::vector<std::string> versions) : versions(std::move(versions)) {}
  Accept(std::function<bool(const Application&)> predicate) : predicate(std::move(predicate)) {}

  std::vector<std::string> versions = {};
  std::function<bool(const Application& saved_by)> predicate = nullptr;
};

/// What a migration may change of one restore: both are copies, of this call alone.
struct Migration {
  State& state;             ///< what is filled; it may get tensors whose memory is the migration's
  RestoreOptions& options;  ///< other names, keys that may be missing, conversions
  /// Called when all is filled, to make new values of old ones. What it throws comes from the
  /// restore, with Code::application; then the contents of the state are unspecified.
  std::function<void()> finish = nullptr;
};
/// Called on all ranks when a checkpoint of another version than this program's is about to be
/// restored, when it is known what it holds and before anything is touched. A version that is not
/// told is empty. Errors as of BeforeSave.
using Migrate = std::function<void(const Application& from, Migration&)>;

}  // namespace cairn
