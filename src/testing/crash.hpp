#pragma once
/// The end of a job at an instant, simulated inside one process.
#include "base/unwinding.hpp"

namespace cairn {

/// Unwinds a rank whose job has crashed.
struct Crashed : Unwinding {};

}  // namespace cairn
