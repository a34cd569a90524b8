#pragma once
/// Plans the one exchange engine: boxes that ranks hold → boxes that ranks want, cut into bounded
/// pieces and rounds. Saves, restores and redistributions use it, so that memory and messages are
/// bounded in one place: a rank holds at most one chunk that it read, one of packed pieces to send
/// and one of pieces that arrive. Pure functions: every rank computes the same plan from the same
/// input.
#include <cstdint>
#include <vector>

#include "cairn/box.hpp"

namespace cairn::plan {

/// A box of a tensor that some rank will hold in memory: a whole stored slice, or a chunk of one.
struct Source {
  int tensor = 0;
  Box box;
  std::int64_t element_bytes = 1;
  int rank = -1;  ///< the rank that must hold it; -1: any rank can read it, the plan chooses one
  int group = 0;  ///< no round has chunks of two groups; must ascend over the sources
};

/// A box that a rank wants. With `id` this rank finds its memory.
struct Target {
  int tensor = 0;
  Box box;
  int rank = 0;
  int id = 0;
};

/// A part of a source that is contiguous in the source's row-major bytes, and also a box.
struct Chunk {
  int source = 0;
  Box box;
  std::int64_t offset = 0, bytes = 0;  ///< within the source
  int rank = 0;                        ///< the rank that acquires it
  bool operator==(const Chunk&) const = default;
};

/// What one target gets of one chunk: chunk ∩ target, in global coordinates.
struct Transfer {
  int chunk = 0;
  int target = 0;  ///< index into the targets
  Box box;
  std::int64_t bytes = 0;
  bool operator==(const Transfer&) const = default;
};

/// In a round each rank acquires its chunks; then the steps move their pieces, one step after the
/// other. In a step no rank sends, nor receives, more than the chunk limit (a single element that
/// is larger travels alone). Pieces that stay on their rank are in `local` and belong to no step.
struct Round {
  std::vector<int> chunks;  ///< ascending by rank, then by chunk
  std::vector<Transfer> local;
  std::vector<std::vector<Transfer>> steps;  ///< none of them is empty
  bool operator==(const Round&) const = default;
};

struct ExchangePlan {
  std::vector<Chunk> chunks;  ///< ascending by source, then by offset
  std::vector<Round> rounds;
  bool operator==(const ExchangePlan&) const = default;
};

/// How many chunks a rank acquires in a round: at most one; or as many as fit the chunk limit
/// together, so that many small tensors cost few rounds.
enum class Packing { one_chunk, fill };

/// Cuts a box into chunks of at most chunk_bytes that are boxes and contiguous in it (a single
/// element larger than that is a chunk of its own), in ascending order of offset and of about equal
/// size. An empty box gives none. `source` and `rank` are left 0. Offsets are multiples of
/// align_bytes if a chunk has room for enough indices of the dimension that is cut, and if the
/// bytes before the first of these indices are such a multiple, too.
std::vector<Chunk> cut_into_chunks(const Box& box, std::int64_t element_bytes,
                                   std::int64_t chunk_bytes, std::int64_t align_bytes = 1);

/// Every source is acquired exactly once and whole, whether or not ranks want all of it: its
/// checksum covers all its bytes. A source with a rank is acquired by that rank. Any other chunk
/// goes to the rank that wants most of it, as long as that rank has not more than its fair share of
/// bytes; otherwise to the least loaded rank. The fair share of a rank is the mean over ranks or,
/// if more, the bytes that it wants; bytes that several ranks want are divided among them. So if
/// each chunk is wanted by one rank only, as after a restart with the same layout, nothing is sent
/// at all. Chunks that all ranks want are dealt out evenly and go round in a rotation.
///
/// `served_by`, by rank: the rank that acquires on its behalf, itself for one that acquires; empty:
/// every rank acquires. A chunk that a rank wants then counts as wanted by its `served_by`, and the
/// mean is over the ranks that acquire.
///
/// Parts of targets that no source covers are left alone: coverage is the caller's to check.
/// Throws Code::internal on ranks outside [0, ranks) and limits below one byte.
ExchangePlan plan_exchange(const std::vector<Source>& sources, const std::vector<Target>& targets,
                           int ranks, std::int64_t chunk_bytes,
                           Packing packing = Packing::one_chunk,
                           const std::vector<int>& served_by = {});

}  // namespace cairn::plan
