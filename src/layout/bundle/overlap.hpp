#pragma once
/// The readers' search for slices that overlap, also among boxes that were made to take long.
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cairn/box.hpp"

namespace cairn::bundle {

/// Two boxes of one rank that share an element, if there are any. Boxes may come from a file: it
/// takes about n log n for slices as writers make them, and stays below n² for odd ones too.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<Box>& boxes);

}  // namespace cairn::bundle
