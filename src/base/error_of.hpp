#pragma once
/// Exceptions of any type as Error, so that ranks can agree on them.
#include <exception>

#include "cairn/error.hpp"

namespace cairn {

/// Turns an exception into an Error whose text is for users of the library: also bad_alloc, and the
/// filesystem_error that the standard library throws for paths. Other exceptions get the code
/// `otherwise`.
Error error_of(const std::exception&, Code otherwise = Code::internal);

/// Turns the exception that is being handled into an Error on which ranks can agree. Foreign
/// exceptions become Code::internal with their text. Rethrows communication errors and Unwinding.
Error current_error();

}  // namespace cairn
