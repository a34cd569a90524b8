#pragma once
/// Chooses which ranks touch which files, and for whom. Pure functions.
///
/// Io ranks change nothing else: file numbers, bytes and the index stay those of the ranks that
/// have the data, unless files are joined (IoRanks). So the choice of writers among replicas does
/// not look at io ranks: it would change the files.
#include <vector>

#include "cairn/write_options.hpp"

namespace cairn::plan {

/// For each rank, the io rank that touches files for it, itself for an io rank. Empty: every rank
/// is one. Rank 0 always is. A rank is served on its own node if an io rank is there. The numbers
/// of ranks that the io ranks of one node serve there differ by one at most; ranks of other nodes
/// go to the io rank that serves fewest. Automatic: empty up to wish.ranks ranks. Throws
/// invalid_argument for a count below one.
std::vector<int> choose_io_ranks(const std::vector<int>& node_of_rank, const IoRanks& wish);

/// For each rank, the number of its file, if ranks share `files` of them (0: one per node; at most
/// one per rank). Ranks of a node stay together, and so do nodes if there are fewer files than
/// nodes. Otherwise each node has as many files as make the ranks of a file about equal, each for
/// neighbouring ranks. Numbers ascend with nodes and ranks, from 0, and none is left out. Throws
/// invalid_argument for less than 0.
std::vector<int> deal_files(const std::vector<int>& node_of_rank, int files);

}  // namespace cairn::plan
