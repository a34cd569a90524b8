#pragma once
/// The one exchange engine's plan: boxes held by these ranks → boxes wanted by those, cut into
/// bounded pieces and rounds. Pure functions: every rank computes the same plan from the same input.
#include <cstdint>
#include <vector>

#include "cairn/box.hpp"

namespace cairn::plan {

/// A box of a tensor that some rank will have in its hands: a whole stored slice, or a chunk of it.
struct Source {
  int tensor = 0;
  Box box;
  std::int64_t element_bytes = 1;
  int rank = -1;  ///< who must hold it; -1: whoever suits best (any rank can read it)
};

/// A box that a rank wants. `id` leads that rank back to its memory.
struct Target {
  int tensor = 0;
  Box box;
  int rank = 0;
  int id = 0;
};

/// A part of a source that is contiguous in the source's row-major bytes, and a box at once.
struct Chunk {
  int source = 0;
  Box box;
  std::int64_t offset = 0, bytes = 0;  ///< within the source
  int rank = 0;                        ///< who acquires it
};

/// One piece for one target: chunk ∩ target, in global coordinates.
struct Piece {
  int chunk = 0;
  int target = 0;  ///< index into the targets
  Box box;
  std::int64_t bytes = 0;
};

/// In a round each rank acquires at most one chunk; then the steps move its pieces. In a step no
/// rank sends, nor receives, more than the chunk limit. Pieces that stay on their rank are in
/// `local` and belong to no step.
struct Round {
  std::vector<int> chunks;               ///< at most one a rank
  std::vector<Piece> local;
  std::vector<std::vector<Piece>> steps;
};

struct ExchangePlan {
  std::vector<Chunk> chunks;
  std::vector<Round> rounds;
};

/// Cuts a box into chunks of at most chunk_bytes that are boxes and contiguous in it (a single
/// element larger than that is a chunk of its own). An empty box gives none.
std::vector<Chunk> cut_into_chunks(const Box& box, std::int64_t element_bytes,
                                   std::int64_t chunk_bytes);

/// Every source is acquired exactly once, whole, whether or not somebody wants all of it: its
/// checksum covers all its bytes. A chunk goes to the rank that wants most of it, as long as that
/// rank has not more than its fair share of bytes; else to the least loaded.
ExchangePlan plan_exchange(const std::vector<Source>& sources, const std::vector<Target>& targets,
                           int ranks, std::int64_t chunk_bytes);

}  // namespace cairn::plan
