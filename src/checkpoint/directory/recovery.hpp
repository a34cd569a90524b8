#pragma once
/// What the owner of a directory does first: complete what counts, remove what does not.
#include "checkpoint/job.hpp"
#include "checkpoint/save/save_steps.hpp"

namespace cairn {

/// Leaves this rank's part record in the temp directory, durable (step 2 of the protocol). After
/// the last writer's, the save counts: recovery completes it.
void leave_record(const Job&, const commit::Transaction&, const CheckpointMeta&, const FileLayout&,
                  const std::vector<StoredTensor>& entries);

/// Collective. A temp directory whose parts are all there, agree, cover every tensor and have bytes
/// with the right checksums is rolled forward to a committed checkpoint; the reading is shared by
/// the ranks. Everything else of ours that no checkpoint refers to is removed; files that are not
/// ours are never touched. A direct save is rolled forward without renames; one that was replacing
/// an index and cannot be rolled forward gives the old index back. A save that needs renames is
/// removed where there are none: its step is as it was before. Returns on rank 0 whether a
/// checkpoint came to be or came back.
bool recover(const Job&);

/// Rank 0, before a direct save of this step begins, which removes what earlier ones left: recovery
/// may have been unable to decide about one. If it had begun to replace the index, what stood there
/// comes back. Throws io if that still cannot be told.
void put_back_undecided(const Job&, std::int64_t step);

/// What recover would do with the directory as it is now.
struct RecoveryStep {
  std::string entry;  ///< of the directory
  bool completes;     ///< it becomes a whole checkpoint, or part of one; else it is removed
  std::string why;
};

/// One process. Changes nothing and needs no ownership; reads all bytes of unfinished saves.
std::vector<RecoveryStep> plan_recovery(const Job&);

}  // namespace cairn
