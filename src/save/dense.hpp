#pragma once
/// Dense tensors: one plain row-major entry each, though several slices make them up. Slices travel
/// to the ranks that write the runs of bytes that they belong to. Dense tensors have data files of
/// their own, one or as many as the sharding policy asks for; all runs of a tensor lie in one.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/wire.hpp"
#include "cairn/contents.hpp"
#include "cairn/state.hpp"
#include "commit/protocol.hpp"
#include "job/job.hpp"
#include "plan/exchange.hpp"

namespace cairn {

struct DenseTensor {
  /// A slice, and who brings it.
  struct Part {
    Box box;
    int rank;
    int slice;  ///< index in that rank's LocalTensor
  };
  std::string key;
  DType dtype{};
  Dims shape;
  std::vector<Part> parts;  ///< they make up the tensor
  int file = 0;             ///< among those of dense tensors
};

/// How they travel between ranks.
void put(WireWriter&, const std::vector<DenseTensor>&);
std::vector<DenseTensor> get_dense(WireReader&);

/// Rank 0 of a bundle's save. Asks the sharding policy which file each goes to, puts the tensors in
/// the order of the files and numbers these from 0. Throws sharding for what is no answer.
void choose_dense_files(const Job&, const State&, std::vector<DenseTensor>&);

/// Who writes what, and how it gets there. The same on all ranks. The exchange runs backwards: its
/// sources are the runs, each one chunk, "held" by their writers; its targets are the slices, and
/// each piece goes from the target to the source. So a writer completes the runs of one round
/// before the next begins.
struct DensePlan {
  std::vector<DenseTensor> tensors;   ///< ascending by file
  std::vector<plan::Source> runs;     ///< no round has runs of two files; files ascend over rounds
  std::vector<std::int64_t> offsets;  ///< of the runs, in their data file
  std::vector<std::int64_t> begins;   ///< of the tensors, in their data file
  std::vector<plan::Target> slices;
  plan::ExchangePlan exchange;
  std::vector<bool> writers;             ///< by rank: whether it has a run
  std::vector<std::int64_t> file_bytes;  ///< lengths of the data files
  std::int64_t bytes = 0;                ///< of them all; 0: there is no dense tensor

  const DenseTensor& tensor_of(const plan::Chunk&) const;
};

/// Runs begin and end on pages where a tensor's extents allow it, so that no two ranks write to one
/// page, and are small against a rank's share, so that most bytes stay on a rank that has them.
/// `served_by` as in plan_exchange: only io ranks write.
DensePlan plan_dense(std::vector<DenseTensor>, int ranks, std::int64_t chunk_bytes,
                     const std::vector<int>& served_by = {});

/// Moves the tensors to these places in their data file.
void place_dense(DensePlan&, const std::vector<std::int64_t>& begins);

/// Collective. Makes the data files, of which `first_file` is the first, unless the format has made
/// them (`are_there`), and writes one after the other, as the job's writer does; each rank syncs
/// what it wrote. Returns the runs of this rank as entries that are not `sliced`. A rank takes at
/// most three chunks of memory.
std::vector<StoredTensor> write_dense(const Job&, const State&, const DensePlan&, int first_file,
                                      bool are_there, const commit::Transaction&);

/// A run of this rank, whole in memory.
struct CapturedRun {
  int chunk;  ///< of plan.exchange
  const std::byte* bytes;
};

/// The memory that capture_dense takes on a rank.
std::int64_t capture_bytes(const DensePlan&, int rank);
/// Collective. This rank's runs, kept in `where`: nothing refers to the application's memory.
std::vector<CapturedRun> capture_dense(const Job&, const State&, const DensePlan&,
                                       std::span<std::byte> where);
/// Local, any thread. Writes captured runs, into files that whoever comes first makes, and syncs
/// them. Returns what write_dense returns.
std::vector<StoredTensor> write_runs(io::FileSystem&, const DensePlan&,
                                     const std::vector<CapturedRun>&, int first_file,
                                     const commit::Transaction&);

}  // namespace cairn
