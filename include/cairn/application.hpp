#pragma once
/// Which program wrote a checkpoint, and whether this program can read it.
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

class State;
struct RestoreOptions;

/// The program that saves, as StoreOptions has it; the same on all ranks. Empty members: not given.
struct Application {
  std::string name = {};
  /// Numbers and words between dots, dashes or plus signs: 1.9 comes before 1.10, and 2.0-rc1
  /// before 2.0. A leading v does not count.
  std::string version = {};
  std::string commit = {};  ///< the commit of its source

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

/// Whether version `a` is newer than `b`.
bool is_newer_version(const std::string& a, const std::string& b);

/// The versions of the application whose checkpoints a restore takes: the listed ones (`*` at the
/// end stands for anything: "2.*") and this program's own; or those that a function accepts, which
/// is called on all ranks and must return the same on each. With neither: this program's own and
/// older versions, and checkpoints without a version.
struct Accept {
  Accept() = default;
  Accept(std::initializer_list<std::string> versions) : versions(versions) {}
  Accept(std::vector<std::string> versions) : versions(std::move(versions)) {}
  Accept(std::function<bool(const Application&)> predicate) : predicate(std::move(predicate)) {}

  std::vector<std::string> versions = {};
  std::function<bool(const Application& saved_by)> predicate = nullptr;
};

/// What a migration may change in one restore. Both members are copies for this call only.
struct Migration {
  State& state;  ///< the state to fill; the migration may add tensors in memory of its own
  RestoreOptions& options;  ///< other names, keys that may be missing, conversions
  /// Called when the state is filled, to compute new values from old ones. The restore throws its
  /// errors with Code::application; then the contents of the state are unspecified.
  std::function<void()> finish = nullptr;
};
/// Called on all ranks when a checkpoint of another version than this program's is about to be
/// restored, after its index was read and before any array is touched. A version that is not known
/// is empty. Its errors are treated as those of BeforeSave.
using Migrate = std::function<void(const Application& from, Migration&)>;

}  // namespace cairn
