#pragma once
/// Which ranks touch files, and for whom. Pure.
#include <vector>

#include "cairn/io_ranks.hpp"

namespace cairn::plan {

/// By rank: the io rank that touches files for it, itself for an io rank. Empty: every rank is one.
/// Rank 0 always is. A rank is served on its own node if an io rank is there, and io ranks of one
/// node serve numbers of its ranks that differ by one at most; ranks of other nodes go to whoever
/// serves fewest. Throws invalid_argument for a count below one.
std::vector<int> choose_io_ranks(const std::vector<int>& node_of_rank, const IoRanks& wish);

}  // namespace cairn::plan
