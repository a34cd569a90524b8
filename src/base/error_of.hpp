#pragma once
#include <exception>

#include "cairn/error.hpp"

namespace cairn {

/// What was thrown as an Error, in words for those who use the library: memory that is not there,
/// and paths that the standard library met, among them. `otherwise`: of what is neither.
Error error_of(const std::exception&, Code otherwise = Code::internal);

}  // namespace cairn
