#pragma once
/// Capture: what a save will write, copied into memory of its own.
#include <span>
#include <vector>

#include "checkpoint/save/dense.hpp"
#include "checkpoint/save/shard_files.hpp"

namespace cairn {

/// Where the copy of a rank's part lies. Entries lie as in their files, from page to page, so that
/// files can be written without another copy.
struct CaptureLayout {
  std::vector<std::int64_t> at;  ///< of each entry of the Outgoing; strings take no place
  std::int64_t shard_bytes = 0;
  std::int64_t bytes = 0;  ///< of shards, and behind them of the runs of dense tensors
};
CaptureLayout capture_layout(const Outgoing&, const DensePlan&, int rank);

/// Local. Copies the slices; the entries' bytes are the copies then.
void capture_shards(Outgoing&, const CaptureLayout&, std::span<std::byte> memory);

}  // namespace cairn
