#pragma once
/// Sparse tensors of a save: finds the gaps that no rank holds, and gives each of them to a rank as
/// a fill value.
///
/// Gaps are filled before coverage is proved, so that the proof needs no exception and still finds
/// slices that overlap. If slices are stored, fills are not written. If one array is stored (HDF5,
/// dense), fills travel like other slices; otherwise the array would keep the bytes of an older,
/// recycled file. The metadata list the gaps, since slices alone cannot tell a gap from a slice
/// that was lost. A tensor of which no rank has any part is an error, since a misspelt key would
/// look the same.
#include <map>
#include <string>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

using FillsByKey = std::map<std::string, std::vector<LocalSlice>>;

/// Collective. `all`: the number of sparse tensors in all ranks' states together. Finds the gaps of
/// each and deals them, as slices of the fill value, to the ranks that have the key. Returns this
/// rank's fills; the slices and fills of all ranks cover each tensor. `gaps`: receives the gaps of
/// all tensors that have any, on all ranks. Throws disagreement if fill values differ, and coverage
/// for a tensor of which no rank holds any part.
FillsByKey fill_gaps(Group&, const RefreshedState&, std::int64_t all, GapsByKey& gaps);

}  // namespace cairn
