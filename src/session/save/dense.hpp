#pragma once
/// Dense tensors. Each is stored as one plain row-major entry, though many slices make it up.
/// Pieces of slices travel to the ranks that write the runs that they belong to. Dense tensors have
/// data files of their own: one, or as many as the sharding policy asks for. All runs of a tensor
/// lie in one file.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
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
#include "session/save/encode_choice.hpp"
#include "store/commit/protocol.hpp"
#include "store/draft.hpp"

namespace cairn {

struct Encoding;
class StayingRuns;
class Window;

struct DenseTensor {
  /// A slice, or a part of one, that this rank contributes.
  struct Part {
    Box box;
    int slice;  ///< index in its LocalTensor
  };
  std::string key;
  DType dtype{};
  Dims shape;
  std::vector<Part> parts;  ///< this rank's; those of all ranks make up the tensor
  int file = 0;             ///< index among the files of dense tensors
};

template <>
inline constexpr auto travels<DenseTensor> =
    std::tuple{&DenseTensor::key, &DenseTensor::dtype, &DenseTensor::shape, &DenseTensor::file};

/// Rank 0, in a save of a bundle. Asks the sharding policy which file each tensor goes to, sorts
/// the tensors by file and numbers the files from 0. Throws sharding if the policy's answer is not
/// valid.
void choose_dense_files(const Sharding&, const RefreshedState&, std::vector<DenseTensor>&);

/// Who writes which run, and how its bytes get there, as far as this rank is concerned. It uses an
/// exchange plan in the opposite direction. In a restore, a chunk is acquired by one rank and
/// travels to the ranks that want it. Here the sources are the tensors, their chunks are the runs,
/// the ranks that "acquire" a run are its writers, and what ranks "want" are their slices: each
/// piece travels from the slice to the run. So a writer completes the runs of one round before the
/// next round begins, and needs the memory of three chunks. ChunkCut numbers the runs, so that
/// every rank can compute the numbers. No round has runs of two files, so that each rank has one
/// file open at a time.
struct DensePlan {
  struct Slice {
    int tensor;
    Box box;
    int slice;  ///< index in the LocalTensor
  };
  /// What all ranks do in one round. Rounds are sorted by file.
  struct Round {
    int file, number;               ///< its number within the file
    int most_runs;                  ///< the largest number of runs that a rank has
    int first_tensor, last_tensor;  ///< the first and the last of which any rank has a run
  };
  std::vector<DenseTensor> tensors;      ///< sorted by file
  std::vector<std::int64_t> begins;      ///< where each tensor begins in its data file
  std::vector<Slice> slices;             ///< this rank's; a piece's `id` is an index here
  plan::RankPlan exchange;               ///< this rank's; groups are files, sources are tensors
  std::vector<Round> rounds;             ///< the same on all ranks
  std::vector<std::int64_t> file_bytes;  ///< lengths of the data files
  std::int64_t bytes = 0;                ///< of all data files; 0: there are no dense tensors
  /// Of each tensor: the extents of its chunks, each of which is a run. Empty: it is one array.
  std::vector<Dims> chunks;
  /// Where this rank writes its chunks, one behind the other, in the order in which it has them.
  /// The range has room for all of them as they are, and is not filled otherwise.
  struct Range {
    std::int64_t begin = 0, bytes = 0;
  };
  Range range;
  const Encoding* encoding = nullptr;  ///< of chunks; null: there are none
  /// Null: chunks are always encoded. Shared by copies of the plan.
  std::shared_ptr<EncodeChoice> choice = nullptr;
  /// Of each data file, if ranks may write it only in parts: how many parts it has, and which size
  /// they are cut by: a part has the runs that begin in one stretch of that size, all of one rank.
  /// Empty: ranks write runs as they like.
  struct Parts {
    int count = 1;
    std::int64_t stretch = 0;
  };
  std::vector<Parts> parts = {};
  /// Whether something encloses the parts (FileEnds). Then rank 0 writes the first one, and none is
  /// shorter than most.
  bool enclosed = false;
  std::int64_t region = 0;  ///< where the tensors of such a file begin

  bool writes() const { return !exchange.chunks.empty(); }  ///< whether this rank has a run
  const plan::Chunk& run(int chunk) const {
    return exchange.chunks[static_cast<std::size_t>(chunk)];
  }
  bool in_chunks(const plan::Chunk& run) const {
    return encoding && !chunks[static_cast<std::size_t>(run.source)].empty();
  }
  /// Of the file: those of this rank, ascending.
  std::vector<FilePart> parts_of(int file) const;
  /// Whether several ranks write the file in parts. If it has just one, its writer does as with
  /// any other file.
  bool is_in_parts(int file) const {
    return enclosed || (!parts.empty() && parts[static_cast<std::size_t>(file)].count > 1);
  }
  /// The part of the file, from 0, that has the run which begins here.
  int part_at(int file, std::int64_t offset) const {
    const auto& [count, stretch] = parts[static_cast<std::size_t>(file)];
    return static_cast<int>(std::min((offset - region) / stretch, std::int64_t{count} - 1));
  }
  /// The numbers of such files, of which the first file of dense tensors has this one.
  std::vector<int> files_in_parts(int first_file) const;
  /// The bytes of a whole chunk of the run's tensor.
  std::int64_t chunk_bytes(const plan::Chunk& run) const {
    return element_count(chunks[static_cast<std::size_t>(run.source)]) *
           static_cast<std::int64_t>(dtype_size(tensor_of(run).dtype));
  }
  const DenseTensor& tensor_of(const plan::Chunk& run) const {
    return tensors[static_cast<std::size_t>(run.source)];
  }
  /// The run's offset in its data file.
  std::int64_t offset_of(const plan::Chunk& run) const {
    return begins[static_cast<std::size_t>(run.source)] + run.offset;
  }
};

/// Collective. All ranks give the same tensors, each with its own parts. Runs begin and end at page
/// boundaries where a tensor's extents allow it, so that no two ranks write to one page. Runs are
/// small compared with a rank's share, so that most bytes stay on a rank that has them.
/// `served_by`: as in plan_exchange; if it is given, only io ranks write. `in_chunks`: how tensors
/// are encoded that are large enough, and that this function does not leave out. `part_bytes`: of
/// the job; 0: files have no parts. `enclosed`: as in the plan.
struct InChunks {
  const Encoding* encoding = nullptr;
  std::function<bool(const std::string& key)> leaves_out;
};
DensePlan plan_dense(Group&, std::vector<DenseTensor>, std::int64_t chunk_bytes,
                     const std::vector<int>& served_by = {}, const InChunks& in_chunks = {},
                     std::int64_t part_bytes = 0, bool enclosed = false);

/// Moves the tensors to these offsets in their data file. `region`: as in the plan.
void place_dense(DensePlan&, const std::vector<std::int64_t>& begins, std::int64_t region = 0);

/// Collective. Deals ranges to the ranks, one behind the other, from 0. Returns the end of the
/// last.
std::int64_t deal_ranges(Group&, DensePlan&);

/// If the format makes the file of dense tensors itself: what it has written there. Only rank 0
/// knows it.
using MadeFile = std::optional<std::vector<commit::Patch>>;

/// Collective. Makes the data files, numbered from `first_file`, unless the format has already made
/// the one file. Writes one file after the other in the way of the job's writer; each rank syncs
/// what it wrote. Returns this rank's runs as entries that are not `sliced`, unless they are
/// chunks. A rank needs at most the memory of three chunks.
std::vector<StoredTensor> write_dense(const Job&, const RefreshedState&, const DensePlan&,
                                      int first_file, const MadeFile&, const Draft&);

/// A run that this rank writes, complete in its memory.
struct CapturedRun {
  int chunk;               ///< index in plan.exchange.chunks
  const std::byte* bytes;  ///< null: it is the next piece of the window
};

/// How much memory capture_dense needs on this rank if no run stays where it is, in bytes.
std::int64_t capture_bytes(const DensePlan&);
/// Collective. Copies this rank's runs to `where`, except those that stay (null: none stays).
std::vector<CapturedRun> capture_dense(const Job&, const RefreshedState&, const DensePlan&,
                                       std::span<std::byte> where, const StayingRuns* = nullptr);
/// Local, any thread. Writes captured runs and syncs them. The first rank that comes to a file
/// makes it. Returns what write_dense returns.
std::vector<StoredTensor> write_runs(const Draft&, const DensePlan&,
                                     const std::vector<CapturedRun>&, int first_file,
                                     Window* = nullptr);

}  // namespace cairn
