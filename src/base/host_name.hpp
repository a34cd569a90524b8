#pragma once
/// How machines are told apart.
#include <string>

namespace cairn {

/// The name by which other machines know this one. Empty if the system does not tell.
std::string host_name();

/// Names the kernel that runs here, since it was started. Empty if the system does not tell.
std::string boot_identity();

}  // namespace cairn
