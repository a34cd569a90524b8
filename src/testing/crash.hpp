#pragma once
/// The crash of a job at some instant, simulated inside one process.
#include "base/unwinding.hpp"

namespace cairn {

/// Unwinds a rank whose job has crashed.
struct Crashed : Unwinding {};

}  // namespace cairn
