#include "layout/hdf5/key_path.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::hdf5 {
namespace {

[[noreturn]] void refuse(const std::string& key, std::string reason) {
  std::string shown(key);
  std::replace(shown.begin(), shown.end(), '\0', '?');
  throw Error(Code::invalid_argument, cat("tensor '", shown, "' cannot be stored in an HDF5 file"),
              std::move(reason), "Give it another key, or save in the format of bundles.")
      .of_tensor(key);
}

}  // namespace

std::vector<std::string> groups_of(const std::vector<std::string>& keys) {
  const std::set<std::string> datasets(keys.begin(), keys.end());
  std::set<std::string> groups;
  for (const auto& key : keys) {
    if (key.find('\0') != key.npos) refuse(key, "its key has a zero byte, which ends a name");
    if (key == own_group) refuse(key, "the group of that name holds what Cairn itself stores");
    for (std::size_t begin = 0; begin <= key.size();) {
      const auto end = std::min(key.find('/', begin), key.size());
      const auto part = key.substr(begin, end - begin);
      if (part.empty()) {
        refuse(key, "its key has an empty part between '/', which HDF5 leaves out of a path");
      }
      if (part == ".") refuse(key, "its key has the part '.', which is the group itself to HDF5");
      if (end < key.size()) {
        auto group = key.substr(0, end);
        if (datasets.count(group)) {
          refuse(key, cat("'", group,
                          "' is a tensor, and HDF5 has nothing that is a dataset and a "
                          "group"));
        }
        groups.insert(std::move(group));
      }
      begin = end + 1;
    }
  }
  return {groups.begin(), groups.end()};  // sorted: a group comes before those in it
}

}  // namespace cairn::hdf5
