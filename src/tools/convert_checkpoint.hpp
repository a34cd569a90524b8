#pragma once
/// Stores a checkpoint again, in another format or with slices of another size.
#include <cstdint>
#include <string>

#include "cairn/checkpoint_manager.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

struct ConvertOptions {
  std::int64_t max_shard_bytes = 0;     ///< most bytes of a data file; 0: one file holds all
  StoreCodec codec = StoreCodec::none;  ///< of a checkpoint as HDF5
  bool overwrite = false;               ///< replace a checkpoint at the destination
  /// The ranks that work together, if the function supports that; null: this process alone.
  std::shared_ptr<Group> ranks = nullptr;
  const std::shared_ptr<Group>& group() const;
};

/// Stores the contents of `source` at another prefix, with the same bits. The data are read and
/// checked slice by slice, then saved and committed like any state, so a crash leaves no half
/// checkpoint. Slices stay as they are unless max_shard_bytes cuts them. A destination NAME-STEP
/// becomes that step of NAME, so that a manager finds it. Memory: less
/// than 96 MiB, but an encoded slice is decoded whole. The metadata go along: step, time, ranks,
/// metric, keys of savers, and the place in the order of commits, so that a conversion never
/// supersedes a later step. A checkpoint that replaces another takes that one's place. A source
/// without a place comes after all others, as their child; so does one that replaces what lies
/// beside a bucket's list. Returns the prefix, or the path of the
/// one file. Throws data_loss for damage, unsupported for variants, already_exists, and busy if a
/// job owns the directory of the destination.
std::string convert_checkpoint(const OpenCheckpoint& source, const Address& destination,
                               const ConvertOptions& = {}, const Progress& = {});

}  // namespace cairn
