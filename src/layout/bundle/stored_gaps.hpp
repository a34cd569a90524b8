#pragma once
/// The gaps of sparse tensors, which no rank held, as JSON: a member of the metadata.
#include <string>
#include <string_view>

#include "cairn/contents.hpp"

namespace cairn::bundle {

/// {"KEY": {"fill": "hexadecimal bytes", "boxes": [[start..., extent...], ...]}}
std::string encode_gaps(const GapsByKey&);
/// Throws data_loss for anything else. fit_gaps() checks that the gaps fit their tensors.
GapsByKey decode_gaps(std::string_view json);

/// Gives each tensor its gaps. A tensor gets a `problem` if its gaps lie outside of it or overlap,
/// or if their fill value has another size than its elements.
void fit_gaps(CheckpointContents&);

}  // namespace cairn::bundle
