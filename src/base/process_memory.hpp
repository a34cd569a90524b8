#pragma once
/// The memory of this process, for the statistics of saves.
#include <cstdint>

namespace cairn {

/// The most memory that this process has had in RAM so far, in bytes; 0 if the system does not
/// tell. Allocates nothing.
std::int64_t peak_resident_bytes();

}  // namespace cairn
