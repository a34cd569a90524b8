#pragma once
/// Errors of those who lack room.
#include <string>

#include "cairn/error.hpp"
#include "session/job/job.hpp"

namespace cairn {

/// In the directory: not memory, nor what a saver of the application has filled elsewhere.
bool lacks_room(const Job&, const Error&);

/// The same error with one more thing that can be done.
Error with_way_out(const Error&, const std::string& more);

}  // namespace cairn
