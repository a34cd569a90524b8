#pragma once
/// From an errno value to the library's error, the same words for the disk and for the double.
#include <cstdint>
#include <string>

#include "cairn/error.hpp"
#include "io/file_system.hpp"

namespace cairn::io {

/// "cannot ACTION: PATH (system's text) what helps". ACTION reads like "create file".
Error system_error(int number, const std::string& action, const Path& path);

/// The same of a rename. What a file system that has none may say names the option that does
/// without.
Error rename_error(int number, const Path& from, const Path& to);

/// data_loss: what stands where a file should be (a pipe, a directory) has no bytes, and never
/// will. So it is passed over like a damaged file. A file that cannot be read now is io instead: it
/// may be whole, and nobody may remove or replace it.
Error no_regular_file(const Path& path);

/// A read of `wanted` bytes at this offset found the end of the file.
Error file_ends(std::int64_t offset, std::size_t wanted, const Path& path);

}  // namespace cairn::io
