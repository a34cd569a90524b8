#pragma once
/// The stages of a save, from a rank's state to entries on disk. Collective ones are marked.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "exchange/divisions.hpp"
#include "model/refreshed_state.hpp"
#include "session/job/job.hpp"
#include "session/save/cached_merge.hpp"
#include "session/save/dense.hpp"
#include "session/save/entry_list.hpp"
#include "session/save/replicas.hpp"
#include "session/save/save_log.hpp"
#include "store/contents/seal.hpp"
#include "store/draft.hpp"

namespace cairn {

/// A slice of a tensor, or a part of one, that this rank must write.
struct Task {
  std::size_t tensor;  ///< index in the state
  int slice;           ///< index of the slice; -1: a string tensor, or one without elements
  Box box;             ///< a part of the slice if several ranks that hold it share the work
};

/// The result of describe and cover: who writes which slice, which tensors are stored dense
/// instead, and which replicas are compared.
struct Covered {
  std::vector<Task> tasks;
  std::vector<DenseTensor> dense;  ///< not in `tasks`; the same on all ranks except for the parts
  ReplicaPlan replicas;
  Divisions divided;  ///< the same on all ranks
};
/// Collective. Proves that all ranks' slices cover each tensor. Rank 0's round of comparisons is
/// used on all ranks.
Covered cover(const Job&, const RefreshedState&, const ReplicaRound&, const Sharding&);

/// The device that holds a slice of this rank's tensor. `slice` is -1 for a tensor without slices.
DeviceTask device_of(const Job&, const LocalTensor&, int slice);

/// Shard (local): calls the policy once for each task of the rank, and validates its answer.
struct LocalShards {
  std::vector<std::vector<Task>> shards;  ///< each ascending by key, then by box; none is empty
  StringStore strings;
  std::int64_t bytes = 0;
};
LocalShards shard(const Job&, const RefreshedState&, std::vector<Task>, const Sharding&);

/// The task's size in its file, before a codec. Strings count with their encoding.
std::int64_t bytes_of(const RefreshedState&, const StringStore&, const Task&);

/// Lay out (collective): numbers data files over all ranks, in rank order. Files that ranks share
/// keep the order in which they were dealt, and files for which no rank has anything are left out.
struct FileLayout {
  int first_file = 0;     ///< of this rank, or the one that it shares with others
  int first_frozen = 0;   ///< of this rank's frozen tensors
  int frozen_files = 0;   ///< of all ranks together
  int data_files = 0;     ///< likewise
  bool one_file = false;  ///< all shards of a rank lie in one file (DataWriter::one_file)
  int shard_files = 0;    ///< how many of them hold shards
  int dense_file = -1;    ///< the first of dense tensors, whose files are the last; -1: none
  int writer = -1;  ///< this rank's number among those that leave a record; -1: it leaves none
  int writers = 0;
  std::int64_t total_bytes = 0;  ///< without frozen tensors, which may need no space
};
FileLayout lay_out(const Job&, const LocalShards&, const LocalShards& frozen, const DensePlan&,
                   const Sharding&);

/// The metadata of a checkpoint, without what the application adds and without what is known only
/// at the end of the save.
CheckpointMeta meta_of_save(const Job&, const DraftId&, const Sharding&);

// Write: see writers/writer.hpp. Shards become bytes in data files in the temp directory, synced.

/// Record (local): leaves this rank's part record in the temp directory, durable (step 2 of the
/// protocol). Once the last writer has left its record, a recovery completes the save.
void leave_record(const Job&, const Draft&, const CheckpointMeta&, const FileLayout&,
                  const EntryList& entries);

/// Merge (collective): returns the entries of all ranks on rank 0, after checking once more that
/// they cover each tensor; nothing on other ranks. `encode`: return index entries, encoded by the
/// ranks that joined them. `measured`: joined over ranks; rank 0's becomes that of all ranks.
/// `divided`, `gaps`: from the save's plan. `kept`: the plan's cache if the plan has served before;
/// null: nothing is cached.
JoinedEntries merge_entries(Group&, EntryList mine, bool encode, SaveStatistics* measured = nullptr,
                            const Divisions& divided = {}, const GapsByKey& gaps = {},
                            CachedMerge* kept = nullptr);

}  // namespace cairn
