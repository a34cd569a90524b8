#pragma once
#include <cstdint>
#include <functional>

namespace cairn {

/// Is called during long work with the bytes done and the bytes in all, by the thread that does the
/// work. May be empty.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

}  // namespace cairn
