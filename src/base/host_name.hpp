#pragma once
/// The name by which other machines know this one.
#include <string>

namespace cairn {

/// Empty if the system does not tell.
std::string host_name();

}  // namespace cairn
