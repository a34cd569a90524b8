#pragma once
/// Turns an errno value into the library's error, with the same text for the disk and for its
/// double in memory.
#include <cstdint>
#include <string>
#include <utility>

#include "cairn/error.hpp"
#include "io/file_system.hpp"

namespace cairn::io {

/// "cannot ACTION: PATH (system's text) what helps". ACTION reads like "create file".
Error system_error(int number, const std::string& action, const Path& path);

/// The same for a rename. For EPERM and EACCES, which a file system without rename may give, the
/// text names the option that does without.
Error rename_error(int number, const Path& from, const Path& to);

/// ESTALE: another node has removed or replaced the file, or it is mounted anew.
class StaleFile : public Error {
 public:
  explicit StaleFile(Error error) : Error(std::move(error)) {}
};
/// Throws system_error() for a file that is read, a StaleFile where it is one.
[[noreturn]] void throw_read_error(int number, const std::string& action, const Path& path);

/// data_loss: something in the place of a file (a pipe, a directory) has no bytes, and never will,
/// so it is passed over like a damaged file. A file that cannot be read at present is io instead:
/// it may be whole, and nobody may remove or replace it.
Error no_regular_file(const Path& path);

/// A read of `wanted` bytes at this offset found the end of the file.
Error file_ends(std::int64_t offset, std::size_t wanted, const Path& path);

}  // namespace cairn::io
