#pragma once
/// Which checkpoints lie in a directory. By one process.
#include <set>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// Names of all checkpoints in a directory: "X" of each "X.index", of whatever origin, and of each
/// "X.h5" of Cairn's, and of those that were lost; ascending, those that end in -STEP by name, then
/// step.
std::vector<std::string> list_prefixes(const Address& directory);
/// The NAMEs of those among them that end in -STEP.
std::set<std::string> names_of(const std::vector<std::string>& prefixes);

}  // namespace cairn
