#pragma once
/// N → M restore: any stored slices into any wanted ones, every byte read once and checked.
#include "checkpoint/contents_reader.hpp"
#include "checkpoint/job.hpp"

namespace cairn {

/// Collective. What a checkpoint holds. Rank 0 reads the index, since other nodes may not see the
/// directory as it is now. Throws not_found or data_loss.
CheckpointContents tell_contents(const Job&, const io::Path& prefix);

/// Collective. Fills the state from the checkpoint. Throws, on all ranks alike:
/// not_found if the state wants a key that is not there, invalid_argument if dtype or shape differ
/// or memory is const (before anything is touched); data_loss if bytes are damaged or missing,
/// after which the arrays' contents are unspecified (unless options.verify_first).
RestoreReport restore_state(const Job&, const CheckpointContents&, State&);

}  // namespace cairn
