#pragma once
/// What a restore does where the checkpoint has gaps (cairn/sparse.hpp).
#include <string>

#include "cairn/contents.hpp"
#include "cairn/state.hpp"
#include "session/restore/resolve_restore.hpp"

namespace cairn {

/// The last of wanted.tensors, made of `given`, wants only what is held: its slices become those
/// parts of them, and what is to be filled is added to wanted.fills. Throws not_found where `given`
/// is not sparse and wants a part of a gap.
void leave_gaps_out(const std::string& key, const StoredTensor&, const LocalTensor& given,
                    WantedState& wanted);

/// Local, when all slices are filled: writes wanted.fills.
void write_fills(const WantedState& wanted);

/// Throws not_found: this part of the tensor was held by no rank.
[[noreturn]] void refuse_gaps(const std::string& key, const StoredTensor&, const Box& gap);

}  // namespace cairn
