#include "tier/home_id.hpp"

#include "base/text.hpp"
#include "commit/names.hpp"
#include "io/file_system.hpp"

namespace cairn::tier {

std::string home_id(io::FileSystem& files, const io::Path& directory, bool may_write) {
  const auto status = files.status(directory);
  const auto is = status ? cat(status->id.inode, " ", status->id.made_nanoseconds) : "";
  const auto path = directory / commit::private_directory_name / "home-id";
  if (io::exists(files, path)) {
    const auto text = io::read_file(files, path, 4096);
    const auto space = text.find(' ');
    const auto id = text.substr(0, space);
    if (space != std::string::npos && commit::is_uuid(id) && text.substr(space + 1) == is) {
      return id;
    }
  }
  if (!may_write) return "";
  auto id = commit::new_uuid();
  io::replace_file(files, path, cat(id, " ", is));
  return id;
}

}  // namespace cairn::tier
