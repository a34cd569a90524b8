#pragma once
/// What a directory tells of saves that failed there.
#include <map>
#include <string>

#include "cli/print.hpp"
#include "store/address.hpp"
#include "store/directory/save_status.hpp"

namespace cairn::cli {

using Failures = std::map<std::string, SaveStatus>;  ///< by the checkpoints' name

/// `only`: of this name; empty: of all.
Failures failures_in(const Address& directory, const std::string& only = "");
/// A line each. `newest_seconds`: when the newest checkpoint of a name that can be restored was
/// saved.
void print_failures(const Failures&, const std::map<std::string, double>& newest_seconds);
Json json_of(const Failures&);

}  // namespace cairn::cli
