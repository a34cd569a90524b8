#pragma once
/// What a CheckpointManager holds, for the files that implement it.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "checkpoint/catalog.hpp"
#include "checkpoint/job.hpp"
#include "checkpoint/save_steps.hpp"
#include "commit/ownership.hpp"

namespace cairn {

// After a failed collective the ranks cannot agree on anything: end the job rather than hang.
template <class F>
auto guarded(Group& group, F&& function) {
  try {
    return function();
  } catch (const Error& error) {
    if (error.code() == Code::communication) group.abort(error.what());
    throw;
  } catch (const std::exception& error) {
    group.abort(error.what());  // whatever ranks agreed on is an Error: this one is alone
    throw;
  }
}

struct CheckpointManager::Impl {
  Job job;
  std::string policy;  // description
  // Rank 0 only.
  std::optional<commit::Ownership> ownership;
  std::vector<CatalogEntry> catalog;
  std::optional<std::int64_t> restored_step;
  std::int64_t head = -1;          // sequence of the checkpoint that the state descends from
  std::int64_t last_sequence = 0;  // failed saves use theirs up
  std::optional<commit::Transaction> unwithdrawn;  // failed, but recovery could still complete it

  Impl(std::shared_ptr<Group> group, io::Path directory, ManagerOptions options);

  void open_directory();
  void require_writable(const char* what) const;

  struct Prepared {
    commit::Transaction save;
    CheckpointMeta meta;
  };
  Prepared prepare(std::int64_t step, const FileLayout&);
  commit::Transaction new_transaction(std::int64_t step, const FileLayout&);
  bool withdraw(const commit::Transaction&, bool committed);
  void after_commit(const Prepared&, bool volatile_commit);
  void collect(const commit::Transaction&);

  struct Choices {
    std::vector<std::int64_t> steps;
    std::vector<std::string> passed;  // "step: why"
  };
  Choices choose();
  bool changed_meanwhile(std::int64_t step);
  CheckpointContents tell_contents(std::int64_t step);
  RestoreReport restore_step(std::int64_t step, State&, const RestoreOptions&);
  void remember_damage(std::int64_t step, const Error&);
  const CatalogEntry* find(std::int64_t step) const;
};

}  // namespace cairn
