#include "store/contents/given_back.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "store/commit/names.hpp"
#include "store/contents/format.hpp"

namespace cairn {

GivenBack::GivenBack(const Address& directory)
    : FileSystemWrapper(directory.files()), directory_(directory.path().lexically_normal()) {
  const auto listing = target().list(directory_);
  std::set<std::string> prefixes;  // those whose main file is set aside
  for (const auto& entry : listing) {
    const auto main = commit::split_main_file(io::Path(entry).stem());
    if (main) prefixes.insert(main->prefix.string());
  }
  for (const auto& prefix : prefixes) {
    for (const auto& entry : listing) {
      const auto before = commit::parse_aside_name(entry, {prefix, false});
      // If another file has the name, the set-aside file does not come back.
      const bool taken = before && std::binary_search(listing.begin(), listing.end(), *before);
      if (before && !taken) aside_.emplace(*before, entry);
    }
  }
}

bool GivenBack::is_set_aside(const io::Path& prefix) const {
  const auto formats = all_formats();
  return std::any_of(formats.begin(), formats.end(), [&](const auto* format) {
    return aside_.count(format->main_file(prefix.filename()).string()) != 0;
  });
}

io::Path GivenBack::now(const io::Path& path) {
  const auto at = aside_.find(path.filename().string());
  const bool is_here = at != aside_.end() && path.parent_path().lexically_normal() == directory_;
  // If another file has got the name meanwhile, the name means that file.
  return is_here && !target().status(path) ? directory_ / at->second : path;
}

std::unique_ptr<io::File> GivenBack::open_read(const io::Path& path) {
  return target().open_read(now(path));
}

bool GivenBack::is_link(const io::Path& path) { return target().is_link(now(path)); }

std::optional<io::Status> GivenBack::status(const io::Path& path) {
  return target().status(now(path));
}

std::vector<std::string> GivenBack::list(const io::Path& directory) {
  auto names = target().list(directory);
  if (directory.lexically_normal() != directory_) return names;
  for (const auto& [before, entry] : aside_) {
    if (std::erase(names, entry) > 0) names.push_back(before);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace cairn
