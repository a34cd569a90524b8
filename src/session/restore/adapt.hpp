#pragma once
/// What a restore makes of a checkpoint that another version of the application saved.
#include <functional>
#include <optional>
#include <string>

#include "cairn/contents.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"
#include "session/job/job.hpp"

namespace cairn {

/// The state and the options of one restore: the caller's, or what a migration made of them.
class Adapted {
 public:
  /// Collective. Throws invalid_argument for a checkpoint that the options do not accept, and what
  /// the migration throws. `meta`: null where the checkpoint is another program's. The other two
  /// outlive it.
  Adapted(const Job&, const std::string& prefix, const CheckpointMeta* meta, State&,
          const RestoreOptions&);
  Adapted(const Job& job, const CheckpointContents& contents, State& state,
          const RestoreOptions& options)
      : Adapted(job, contents.prefix, contents.meta ? &*contents.meta : nullptr, state, options) {}
  Adapted(const Adapted&) = delete;
  Adapted& operator=(const Adapted&) = delete;

  State& state() { return state_ ? *state_ : given_; }
  const RestoreOptions& options() const { return options_ ? *options_ : given_options_; }
  /// What does not fit a state may be what another version has called otherwise: the same error,
  /// with both versions.
  Error with_versions(const Error&) const;
  /// Collective. When all is filled.
  void finish(Group&) const;

 private:
  State& given_;
  const RestoreOptions& given_options_;
  std::optional<State> state_;
  std::optional<RestoreOptions> options_;
  bool migrates_ = false;
  std::string versions_;  // empty: they are the same, or nobody says
  std::function<void()> finish_;
};

}  // namespace cairn
