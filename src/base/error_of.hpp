#pragma once
#include <exception>

#include "cairn/error.hpp"

namespace cairn {

/// What was thrown as an Error, in words for those who use the library: memory that is not there,
/// and paths that the standard library met, among them. `otherwise`: of what is neither.
Error error_of(const std::exception&, Code otherwise = Code::internal);

/// The exception that is being handled, as an Error that ranks can agree on: foreign ones become
/// Code::internal with their text. Rethrows communication errors and Unwinding.
Error current_error();

}  // namespace cairn
