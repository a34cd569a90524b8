#pragma once
/// How long the data files of a directory are, found out by all ranks: to open a directory is no
/// more work for rank 0 when its checkpoints have many files.
#include <cstdint>
#include <map>

#include "store/contents/contents_reader.hpp"
#include "store/location.hpp"

namespace cairn {

/// Of bundles, by step.
using SizesOfSteps = std::map<std::int64_t, FoundSizes>;

/// Collective. Each io rank looks at its share of the data files of all bundles. Known on rank 0
/// only; what could not be seen is for rank 0 to look at again, and so is all where one view of the
/// files tells of all.
SizesOfSteps find_sizes_of_steps(const Location&, const Readers&);

}  // namespace cairn
