#pragma once
/// Reports the failed saves of a directory.
#include <map>
#include <string>

#include "cli/print.hpp"
#include "store/address.hpp"
#include "store/directory/save_status.hpp"

namespace cairn::cli {

using Failures = std::map<std::string, SaveStatus>;  ///< by name of the checkpoints

/// With `only`, those of this name; if it is empty, all.
Failures failures_in(const Address& directory, const std::string& only = "");
/// Prints one line for each. `newest_seconds` has, for each name, the time of the newest checkpoint
/// that can be restored.
void print_failures(const Failures&, const std::map<std::string, double>& newest_seconds);
Json json_of(const Failures&);

}  // namespace cairn::cli
