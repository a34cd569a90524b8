#pragma once
/// What no rank held of sparse tensors, as JSON: a member of the metadata.
#include <string>
#include <string_view>

#include "cairn/contents.hpp"

namespace cairn::bundle {

/// {"KEY": {"fill": "hexadecimal bytes", "boxes": [[start..., extent...], ...]}}
std::string encode_gaps(const GapsByKey&);
/// Throws data_loss for anything else. Whether they fit the tensors is for fit_gaps to say.
GapsByKey decode_gaps(std::string_view json);

/// Gives each tensor its gaps. One whose gaps lie outside of it, overlap, or have another
/// element's size gets a `problem`.
void fit_gaps(CheckpointContents&);

}  // namespace cairn::bundle
