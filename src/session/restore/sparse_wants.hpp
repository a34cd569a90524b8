#pragma once
/// What a restore does about gaps in the checkpoint (cairn/sparse.hpp).
#include <string>

#include "cairn/contents.hpp"
#include "cairn/state.hpp"
#include "session/restore/resolve_restore.hpp"

namespace cairn {

/// Cuts the gaps out of the last of wanted.tensors, which was made of `given`: its slices become
/// the parts that are stored, and the rest is added to wanted.fills. Throws not_found if `given` is
/// not sparse and wants a part of a gap.
void leave_gaps_out(const std::string& key, const StoredTensor&, const LocalTensor& given,
                    WantedState& wanted);

/// Not collective. Call it when all slices are filled: it writes wanted.fills.
void write_fills(const WantedState& wanted);

/// Throws not_found: no rank held this part of the tensor.
[[noreturn]] void refuse_gaps(const std::string& key, const StoredTensor&, const Box& gap);

}  // namespace cairn
