#pragma once
/// How many data files a checkpoint has, which it says itself.
#include <cstdint>
#include <vector>

#include "cairn/contents.hpp"

namespace cairn {

/// Whether so many data files are credible for so many slices: an index, or a part record, may
/// speak of more than any writer makes. Who does something for each data file asks this first.
bool is_credible(std::int64_t num_files, std::int64_t slices);
std::int64_t slices_of(const CheckpointContents&);
/// The numbers of all data files; where there are more than is credible, of those that tensors lie
/// in. Ascending.
std::vector<std::int32_t> data_files_of(const CheckpointContents&);

}  // namespace cairn
