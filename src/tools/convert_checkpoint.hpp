#pragma once
/// A checkpoint stored again, in another format or cut otherwise. By one process.
#include <cstdint>
#include <string>

#include "cairn/checkpoint_manager.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

struct ConvertOptions {
  std::int64_t max_shard_bytes = 0;  ///< of a data file; 0: one file holds all
  bool overwrite = false;            ///< replace what is at the destination
  /// Those that do it together, where the function says that it can; null: this process alone.
  std::shared_ptr<Group> ranks = nullptr;
  const std::shared_ptr<Group>& group() const;
};

/// Stores what `source` holds at another prefix, the values bit by bit: it is read and checked
/// slice by slice, and saved and committed as any state is, so that a crash leaves no half of it.
/// Slices stay what they are unless max_shard_bytes cuts them. A destination NAME-STEP becomes that
/// step of NAME, which a manager finds. Memory: the largest stored slice, or 256 MiB of smaller
/// ones. What is known of the save goes along: step, time, ranks, metric, savers' keys, and its
/// place among others; a checkpoint that replaces one takes the place of that. So a conversion
/// never supersedes a later step. A source that does not tell its place comes behind all others, as
/// their child. Returns the prefix. Throws data_loss for damage, unsupported for variants,
/// already_exists, busy if a job owns the destination's directory.
std::string convert_checkpoint(const OpenCheckpoint& source, const Address& destination,
                               const ConvertOptions& = {}, const Progress& = {});

}  // namespace cairn
