#pragma once
/// The end of a job at an instant, played inside one process.

namespace cairn {

/// Unwinds a rank whose job has crashed. Not a std::exception and never turned into an Error, so
/// that no handler takes it for a failure that ranks could agree on. Handlers with `catch (...)`
/// must pass it on.
struct Crashed {};

}  // namespace cairn
