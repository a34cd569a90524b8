#pragma once
/// What unwinds a thread and is no failure.

namespace cairn {

/// Nothing in the library throws one. A test that ends a rank at an instant, inside its process,
/// throws what derives from it: no std::exception, so that no handler takes it for an error on
/// which ranks could agree. Handlers with `catch (...)` pass it on.
struct Unwinding {};

}  // namespace cairn
