#include "store/bucket/object_names.hpp"

#include <algorithm>
#include <string_view>

#include "store/commit/names.hpp"

namespace cairn {

using Kind = commit::ParsedName::Kind;

std::optional<std::string> prefix_of_data(const std::string& path) {
  const auto begin = path.rfind('/') + 1;  // of the name
  const auto name = std::string_view(path).substr(begin);
  for (auto dot = name.rfind('.'); dot != name.npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    const commit::Naming alone(std::string(name.substr(0, dot)), false);
    if (commit::parse_name(name, alone).kind == Kind::data) return path.substr(0, begin + dot);
  }
  return std::nullopt;
}

bool may_be_replaced(const io::Path& path) {
  const auto main = commit::split_main_file(path);
  return (main && !commit::is_whole(main->kind)) || path.filename() == commit::state_file_name ||
         path.parent_path().filename() == commit::private_directory_name;
}

bool may_be_file(const io::Path& path) {
  const auto name = path.filename();
  if (path.parent_path().filename() != commit::private_directory_name) {
    return name != commit::private_directory_name;
  }
  return std::ranges::find(commit::private_folders, name) == commit::private_folders.end();
}

bool may_be_directory(const io::Path& path) {
  if (!may_be_file(path)) return true;
  const auto above = path.parent_path();
  if (above.filename() == commit::private_directory_name) {
    return commit::parse_private_name(path.filename().string()).kind == Kind::foreign;
  }
  const bool is_note = above.parent_path().filename() == commit::private_directory_name &&
                       (above.filename() == commit::damaged_directory_name ||
                        above.filename() == commit::pinned_directory_name ||
                        above.filename() == commit::marked_directory_name);
  return !is_note && !commit::split_main_file(path) && !prefix_of_data(path.string()) &&
         path.filename() != commit::state_file_name;
}

}  // namespace cairn
