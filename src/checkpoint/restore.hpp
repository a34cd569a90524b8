#pragma once
/// N → M restore: any stored slices into any wanted ones, every byte read once and checked.
#include "checkpoint/contents_reader.hpp"
#include "checkpoint/job.hpp"

namespace cairn {

/// Collective. Fills the state from the checkpoint. Throws, on all ranks alike:
/// not_found if the state wants a key that is not there, invalid_argument if dtype or shape differ
/// or memory is const (before anything is touched); data_loss if bytes are damaged or missing,
/// after which the arrays' contents are unspecified (unless options.verify_first).
RestoreReport restore_state(const Job&, const CheckpointContents&, State&);

}  // namespace cairn
