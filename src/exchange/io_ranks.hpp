#pragma once
/// Which ranks touch which files, and for whom. Pure.
///
/// Io ranks change nothing else: file numbers, bytes and the index stay those of the ranks that
/// have the data, unless files are joined (IoRanks). So the choice of writers among replicas does
/// not look at io ranks: it would change the files.
#include <vector>

#include "cairn/write_options.hpp"

namespace cairn::plan {

/// By rank: the io rank that touches files for it, itself for an io rank. Empty: every rank is one.
/// Rank 0 always is. A rank is served on its own node if an io rank is there, and io ranks of one
/// node serve numbers of its ranks that differ by one at most; ranks of other nodes go to whoever
/// serves fewest. Automatic: empty up to wish.ranks ranks. Throws invalid_argument for a count
/// below one.
std::vector<int> choose_io_ranks(const std::vector<int>& node_of_rank, const IoRanks& wish);

/// By rank: the number of its file, when `files` of them are shared by ranks (0: one a node; at
/// most one a rank). Ranks of a node stay together, and nodes do where there are fewer files;
/// otherwise a node has as many files as makes ranks a file about equal, each for ranks in a row.
/// Numbers ascend with nodes and ranks, from 0, and none is left out. Throws invalid_argument for
/// less than 0.
std::vector<int> deal_files(const std::vector<int>& node_of_rank, int files);

}  // namespace cairn::plan
