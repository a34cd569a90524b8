#pragma once
/// The stages of a save, from a rank's state to entries on disk. Each collective one is marked.
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "exchange/divisions.hpp"
#include "model/refreshed_state.hpp"
#include "session/job/job.hpp"
#include "session/save/cached_merge.hpp"
#include "session/save/dense.hpp"
#include "session/save/replicas.hpp"
#include "session/save/save_log.hpp"
#include "store/contents/seal.hpp"
#include "store/draft.hpp"

namespace cairn {

/// A tensor's slice, or a part of one, that this rank is to write.
struct Task {
  std::size_t tensor;  ///< index in the state
  int slice;           ///< index of the slice; -1: a string tensor, or one without elements
  Box box;             ///< less than the slice where several ranks that hold it share the work
};

/// Describe and cover (collective): all ranks' slices make up each tensor; who writes which slice,
/// and which tensors are stored dense instead; which replicas are compared.
struct Covered {
  std::vector<Task> tasks;
  std::vector<DenseTensor> dense;  ///< the same on all ranks but for the parts; none of the tasks
  ReplicaPlan replicas;
  Divisions divided;  ///< the same on all ranks
};
/// The turn of rank 0 counts.
Covered cover(const Job&, const RefreshedState&, const ReplicaRound&, const Sharding&);

/// Where a slice of a tensor of this rank lives; -1: a tensor that has none.
DeviceTask device_of(const Job&, const LocalTensor&, int slice);

/// Shard (local): the policy, once for each task of the rank, and its validation.
struct LocalShards {
  std::vector<std::vector<Task>> shards;  ///< each ascending by key, then by box; none is empty
  StringStore strings;
  std::int64_t bytes = 0;
};
LocalShards shard(const Job&, const RefreshedState&, std::vector<Task>, const Sharding&);

/// How many bytes it has in its file, before they are encoded; of strings, as they are encoded.
std::int64_t bytes_of(const RefreshedState&, const StringStore&, const Task&);

/// Lay out (collective): data files are numbered over ranks in rank order, shared ones as they were
/// dealt, less those that nobody has anything for.
struct FileLayout {
  int first_file = 0;     ///< of this rank; the one that it shares, if ranks share files
  int first_frozen = 0;   ///< of this rank's frozen tensors
  int data_files = 0;     ///< of all ranks
  bool one_file = false;  ///< all shards of a rank lie in one file (DataWriter::one_file)
  int shard_files = 0;    ///< of these, with shards
  int dense_file = -1;    ///< the first of dense tensors, if there are any: theirs are the last
  int writer = -1;  ///< this rank's number among those that leave a record, -1: it leaves none
  int writers = 0;
  std::int64_t total_bytes = 0;  ///< but for frozen tensors, which may take none
};
FileLayout lay_out(const Job&, const LocalShards&, const LocalShards& frozen, const DensePlan&,
                   const Sharding&);

/// What a checkpoint says of the save that makes it, but for what the application says of it and
/// what is known when it is over.
CheckpointMeta meta_of_save(const Job&, const DraftId&, const Sharding&);

// Write: writers/writer.hpp. Shards become bytes in data files, in the temp directory and synced.

/// Record (local): leaves this rank's part record in the temp directory, durable (step 2 of the
/// protocol). After the last writer's, the save counts: recovery completes it.
void leave_record(const Job&, const Draft&, const CheckpointMeta&, const FileLayout&,
                  const std::vector<StoredTensor>& entries);

/// Merge (collective): the entries of all ranks on rank 0, checked once more to cover each tensor;
/// nothing on other ranks. `encode`: as entries of an index, which the ranks that joined them have
/// encoded. With them goes what ranks measured: rank 0's becomes that of all. `divided`, `gaps`: of
/// the save's plan. `kept`: of that plan, too, which has served before; null: nothing is kept.
JoinedEntries merge_entries(Group&, std::vector<StoredTensor> mine, bool encode,
                            SaveStatistics* measured = nullptr, const Divisions& divided = {},
                            const GapsByKey& gaps = {}, CachedMerge* kept = nullptr);

}  // namespace cairn
