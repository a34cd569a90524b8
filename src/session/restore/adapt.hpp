#pragma once
/// Checks and migrates a checkpoint that another version of the application saved.
#include <functional>
#include <optional>
#include <string>

#include "cairn/contents.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"
#include "session/job/job.hpp"

namespace cairn {

/// The state and the options of one restore: those of the caller, or those that a migration made.
class Adapted {
 public:
  /// Collective. Throws invalid_argument for a checkpoint that the options do not accept, and the
  /// errors of the migration. `meta` is null if another program made the checkpoint. The state and
  /// the options must outlive this object.
  Adapted(const Job&, const std::string& prefix, const CheckpointMeta* meta, State&,
          const RestoreOptions&);
  Adapted(const Job& job, const CheckpointContents& contents, State& state,
          const RestoreOptions& options)
      : Adapted(job, contents.prefix, contents.meta ? &*contents.meta : nullptr, state, options) {}
  Adapted(const Adapted&) = delete;
  Adapted& operator=(const Adapted&) = delete;

  State& state() { return state_ ? *state_ : given_; }
  const RestoreOptions& options() const { return options_ ? *options_ : given_options_; }
  /// Adds both versions to an error that says that the checkpoint does not fit the state: another
  /// version may have named its tensors differently. Returns other errors unchanged.
  Error with_versions(const Error&) const;
  /// Collective. Call it when the whole state is filled.
  void finish(Group&) const;

 private:
  State& given_;
  const RestoreOptions& given_options_;
  std::optional<State> state_;
  std::optional<RestoreOptions> options_;
  bool migrates_ = false;
  std::string versions_;  // empty if both are the same, or one is not known
  std::function<void()> finish_;
};

}  // namespace cairn
