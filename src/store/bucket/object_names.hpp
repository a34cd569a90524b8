#pragma once
/// What the name of an object tells.
#include <optional>
#include <string>

#include "io/file_system.hpp"

namespace cairn {

/// The prefix of a data file's path, with the directory; nothing for other names.
std::optional<std::string> prefix_of_data(const std::string& path);
/// Whether it is the name of a file that a save may replace, such as an index: it is read whole.
bool may_be_replaced(const io::Path&);
/// Whether there may be a file, or a directory, of this name: it is none that only the other has.
bool may_be_file(const io::Path&);
bool may_be_directory(const io::Path&);

}  // namespace cairn
