#pragma once
/// How many data files a checkpoint has, as it says itself.
#include <cstdint>
#include <vector>

#include "cairn/contents.hpp"

namespace cairn {

/// Whether this many data files are plausible for this many slices: a damaged index or part record
/// may name more than any writer makes. Call it before doing something for each data file.
bool is_credible(std::int64_t num_files, std::int64_t slices);
std::int64_t slices_of(const CheckpointContents&);
/// The numbers of all data files, ascending. If the count is not credible, only of those in which
/// tensors are.
std::vector<std::int32_t> data_files_of(const CheckpointContents&);

}  // namespace cairn
