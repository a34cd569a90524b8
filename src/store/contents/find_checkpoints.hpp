#pragma once
/// Which checkpoints are in a directory. Local: one process calls it.
#include <set>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// Names of all checkpoints in a directory: "X" of each "X.index", whoever made it, of each "X.h5"
/// that Cairn made, and of each lost checkpoint. Ascending; names that end in -STEP are ordered by
/// name, then step.
std::vector<std::string> list_prefixes(const Address& directory);
/// The NAME of each of these prefixes that ends in -STEP.
std::set<std::string> names_of(const std::vector<std::string>& prefixes);

}  // namespace cairn
