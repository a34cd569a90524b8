#pragma once
#include <cstdint>
#include <functional>

namespace cairn {

/// Told of long work as it goes: bytes done, of how many in all. May be empty. Called from the
/// thread that does the work.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

}  // namespace cairn
