#pragma once
/// The checkpoints of one name in one directory: the engine behind CheckpointManager and
/// Checkpoint.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "checkpoint/directory/catalog.hpp"
#include "checkpoint/directory/recycling.hpp"
#include "checkpoint/job.hpp"
#include "checkpoint/restore/restore.hpp"
#include "checkpoint/save/save_steps.hpp"
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

/// Members marked collective are to be called under guarded(). What is said of the members of
/// CheckpointManager holds for those of the same name here.
struct Series {
  Job job;
  bool keeps_state_file = true;
  std::string policy;  // description
  // Rank 0 only.
  std::optional<commit::OwnedName> ownership;
  std::optional<Recycling> recycling;  // ends before the ownership
  std::vector<CatalogEntry> catalog;
  std::optional<std::int64_t> restored_step;
  std::int64_t head = -1;          // sequence of the checkpoint that the state descends from
  std::int64_t last_sequence = 0;  // failed saves use theirs up
  std::int64_t replica_turn = 0;   // which sample of replicas is the next
  bool replicas_suspect = false;   // the last comparison found a difference
  std::optional<commit::Transaction> unwithdrawn;  // failed, but recovery could still complete it

  Series(std::shared_ptr<Group> group, io::Path directory, commit::Naming naming,
         ManagerOptions options);

  void open_directory();  // collective
  // collective
  std::string save(std::int64_t step, const State& state, const SaveOptions& = {});
  void call_before_save(std::int64_t step) const;  // collective
  void require_writable(const char* what) const;
  void write_state_file(const std::vector<CatalogEntry>&) const;

  struct Prepared {
    commit::Transaction save;
    CheckpointMeta meta;
  };
  Prepared prepare(std::int64_t step, const FileLayout&);
  commit::Transaction new_transaction(std::int64_t step, const FileLayout&);
  void require_not_pinned(std::int64_t step) const;
  bool withdraw(const commit::Transaction&, bool committed);
  void after_commit(const Prepared&, bool volatile_commit);
  void collect(const commit::Transaction&);

  struct Choices {
    std::vector<std::int64_t> steps;
    std::vector<std::string> passed;  // "step: why"
  };
  Choices choose();
  bool changed_meanwhile(std::int64_t step);
  RestoreReport restore_step(std::int64_t step, State&, const RestoreOptions&, Touched* = nullptr);
  void remember_damage(std::int64_t step, const Error&);
  const CatalogEntry* find(std::int64_t step) const;
};

struct CheckpointManager::Impl : Series {
  using Series::Series;
};

}  // namespace cairn
