#pragma once
/// Which ranks touch files: TensorFlow's experimental_io_device, for ranks.
#include <cstdint>

namespace cairn {

/// Io ranks write and read data files for themselves and for the ranks that they serve, which send
/// them the bytes of a save and receive those of a restore. The same on all ranks. Neither the
/// contents of the files nor later restores depend on this choice.
///
/// Rank 0 is always an io rank: it commits, and reads the index. A rank is served on its own node
/// if an io rank is there, and io ranks of a node serve about equally many. Registered savers are
/// the application's own input and output: they run on every rank, and a rank that returned
/// bundles links their files and leaves a record of them.
struct IoRanks {
  enum class Choice { everyone, one_a_node, count };

  static IoRanks everyone() { return {}; }
  static IoRanks one_a_node() { return {.choice = Choice::one_a_node}; }
  /// So many, over all nodes as evenly as possible; everyone if the job has no more ranks.
  static IoRanks count(int ranks) { return {.choice = Choice::count, .ranks = ranks}; }

  Choice choice = Choice::everyone;
  int ranks = 0;  ///< of Choice::count, 1 or more
  /// How many bytes of other ranks' shards an io rank holds at a time, in whole chunks of
  /// chunk_bytes and at least one: this says how many ranks it serves at once. Besides, it takes up
  /// to 256 KiB for each rank that it serves, in which small tensors are gathered. Dense tensors
  /// and restores take three chunks on any rank.
  std::int64_t memory_bytes = std::int64_t{64} << 20;
};

}  // namespace cairn
