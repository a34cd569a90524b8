#pragma once
/// The last step of every conversion into a checkpoint.
#include <string>

#include "cairn/contents.hpp"
#include "cairn/state.hpp"
#include "store/address.hpp"
#include "tools/convert_checkpoint.hpp"

namespace cairn {

/// Saves and commits the state at this prefix, in the same place in the order of commits that
/// `origin` had. Returns as convert_checkpoint does, and throws its errors. Collective over the
/// ranks of the options.
std::string store_state(const State&, const CheckpointMeta& origin, const Address& destination,
                        const ConvertOptions&);

}  // namespace cairn
