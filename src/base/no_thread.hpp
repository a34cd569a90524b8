#pragma once
/// The error if the system starts no more threads.
#include <system_error>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {

/// `what` completes "cannot start a thread", such as "that does this or that".
inline Error no_thread(const char* what, const std::system_error& error) {
  return Error(Code::io, cat("cannot start a thread ", what), error.code().message(),
               "Threads of this user, or of its container, may be limited: see ulimit -u.");
}

}  // namespace cairn
