#pragma once
/// An exception that unwinds a thread and is not a failure.

namespace cairn {

/// The library itself never throws one. A test that ends a rank at some instant, inside its
/// process, throws a type that derives from this. It is no std::exception, so that no handler takes
/// it for an error on which ranks could agree. Handlers with `catch (...)` rethrow it.
struct Unwinding {};

}  // namespace cairn
