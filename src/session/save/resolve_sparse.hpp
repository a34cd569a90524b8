#pragma once
/// Sparse tensors of a save: what no rank holds of them, and who has the fill value for it.
///
/// Gaps are filled before coverage is proved, so that the proof needs no exception: it still finds
/// a slice that overlaps another one. Where slices are stored, fills are not written. Where one
/// array is stored (HDF5, dense), they travel like other slices: else the array would hold what an
/// older file left there. The metadata note the gaps, since slices alone cannot tell a gap from a
/// slice that was lost. A tensor without any part is refused: a misspelt key looks the same.
#include <map>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

using FillsByKey = std::map<std::string, std::vector<LocalSlice>>;

/// Collective. `all`: how many sparse tensors all ranks' states have. Finds the gaps of each, which
/// become slices of fill value, dealt to the ranks that have the key: the result is this rank's,
/// and slices and fills of all ranks make up each tensor. `gaps` gets those of all tensors that
/// have some, on all ranks. Throws disagreement where fill values differ, coverage for a tensor of
/// which no rank holds any part.
FillsByKey fill_gaps(Group&, const RefreshedState&, std::int64_t all, GapsByKey& gaps);

}  // namespace cairn
