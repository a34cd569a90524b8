#pragma once
/// Dense tensors: one plain row-major entry each, though several slices make them up. Slices travel
/// to the ranks that write the runs of bytes that they belong to. Dense tensors have data files of
/// their own, one or as many as the sharding policy asks for; all runs of a tensor lie in one.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/wire.hpp"
#include "cairn/contents.hpp"
#include "exchange/spread.hpp"
#include "model/refreshed_state.hpp"
#include "session/job/job.hpp"
#include "store/commit/protocol.hpp"
#include "store/draft.hpp"

namespace cairn {

struct DenseTensor {
  /// A slice, or a part of one, that this rank brings.
  struct Part {
    Box box;
    int slice;  ///< index in its LocalTensor
  };
  std::string key;
  DType dtype{};
  Dims shape;
  std::vector<Part> parts;  ///< of this rank; those of all make up the tensor
  int file = 0;             ///< among those of dense tensors
};

template <>
inline constexpr auto travels<DenseTensor> =
    std::tuple{&DenseTensor::key, &DenseTensor::dtype, &DenseTensor::shape, &DenseTensor::file};

/// Rank 0 of a bundle's save. Asks the sharding policy which file each goes to, puts the tensors in
/// the order of the files and numbers these from 0. Throws sharding for what is no answer.
void choose_dense_files(const Sharding&, const RefreshedState&, std::vector<DenseTensor>&);

/// Who writes what, and how it gets there, as far as this rank has to do with it. The exchange
/// runs backwards: its sources are the tensors, whose chunks are the runs, "acquired" by their
/// writers; what ranks "want" are their slices, and each piece goes from where it is wanted to
/// where the run is. So a writer completes the runs of one round before the next begins, in the
/// memory of three chunks. Runs are numbered by ChunkCut, which every rank can compute. No round
/// has runs of two files, so that each rank has one file open at a time.
struct DensePlan {
  struct Slice {
    int tensor;
    Box box;
    int slice;  ///< index in the LocalTensor
  };
  /// What all ranks do in a round; files ascend over rounds.
  struct Round {
    int file, number;               ///< the number in the file
    int most_runs;                  ///< that a rank has
    int first_tensor, last_tensor;  ///< that any rank has a run of
  };
  std::vector<DenseTensor> tensors;      ///< ascending by file
  std::vector<std::int64_t> begins;      ///< of the tensors, in their data file
  std::vector<Slice> slices;             ///< of this rank: `id` of the pieces
  plan::RankPlan exchange;               ///< of this rank: groups are files, sources are tensors
  std::vector<Round> rounds;             ///< of all ranks
  std::vector<std::int64_t> file_bytes;  ///< lengths of the data files
  std::int64_t bytes = 0;                ///< of them all; 0: there is no dense tensor

  bool writes() const { return !exchange.chunks.empty(); }  ///< whether this rank has a run
  const plan::Chunk& run(int chunk) const {
    return exchange.chunks[static_cast<std::size_t>(chunk)];
  }
  const DenseTensor& tensor_of(const plan::Chunk& run) const {
    return tensors[static_cast<std::size_t>(run.source)];
  }
  /// In its data file.
  std::int64_t offset_of(const plan::Chunk& run) const {
    return begins[static_cast<std::size_t>(run.source)] + run.offset;
  }
};

/// Collective; all ranks give the same tensors, each with its own parts. Runs begin and end on
/// pages where a tensor's extents allow it, so that no two ranks write to one page, and are small
/// against a rank's share, so that most bytes stay on a rank that has them. `served_by` as in
/// plan_exchange: only io ranks write.
DensePlan plan_dense(Group&, std::vector<DenseTensor>, std::int64_t chunk_bytes,
                     const std::vector<int>& served_by = {});

/// Moves the tensors to these places in their data file.
void place_dense(DensePlan&, const std::vector<std::int64_t>& begins);

/// What a format has put into the file of dense tensors, if it makes that itself, as rank 0 knows.
using MadeFile = std::optional<std::vector<commit::Patch>>;

/// Collective. Makes the data files, of which `first_file` is the first, unless the format has made
/// the one that there is, and writes one after the other, as the job's writer does; each rank syncs
/// what it wrote. Returns the runs of this rank as entries that are not `sliced`. A rank takes at
/// most three chunks of memory.
std::vector<StoredTensor> write_dense(const Job&, const RefreshedState&, const DensePlan&,
                                      int first_file, const MadeFile&, const Draft&);

/// A run of this rank, whole in memory.
struct CapturedRun {
  int chunk;  ///< of plan.exchange
  const std::byte* bytes;
};

/// The memory that capture_dense takes on this rank.
std::int64_t capture_bytes(const DensePlan&);
/// Collective. This rank's runs, kept in `where`: nothing refers to the application's memory.
std::vector<CapturedRun> capture_dense(const Job&, const RefreshedState&, const DensePlan&,
                                       std::span<std::byte> where);
/// Local, any thread. Writes captured runs, into files that whoever comes first makes, and syncs
/// them. Returns what write_dense returns.
std::vector<StoredTensor> write_runs(const Draft&, const DensePlan&,
                                     const std::vector<CapturedRun>&, int first_file);

}  // namespace cairn
