#include "store/contents/find_checkpoints.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "store/commit/names.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"

namespace cairn {

std::vector<std::string> list_prefixes(const Address& directory) {
  std::set<std::string> found;  // a step may be there in both formats
  for (const auto& entry : directory.list()) {
    const auto file = commit::split_main_file(entry);
    if (!file) continue;
    const auto path = directory / entry;
    // A link whose target is missing counts: the target was a checkpoint.
    if (try_recognise(format_of(file->kind), path).value_or(true) ||
        (!path.exists() && path.files()->is_link(path.path()))) {
      found.insert(file->prefix.string());
    }
  }
  for (const auto& lost : find_lost(*directory.files(), directory.path()))
    found.insert(lost.prefix.filename().string());
  std::vector<std::string> prefixes(found.begin(), found.end());
  // By number, so that step 9 comes before step 10.
  const auto order = [](const std::string& prefix) {
    const auto split = commit::split_step(prefix);
    return split ? std::make_tuple(split->name, split->step, prefix)
                 : std::make_tuple(prefix, std::int64_t{-1}, prefix);
  };
  std::sort(prefixes.begin(), prefixes.end(),
            [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return prefixes;
}

std::set<std::string> names_of(const std::vector<std::string>& prefixes) {
  std::set<std::string> names;
  for (const auto& prefix : prefixes) {
    if (const auto split = commit::split_step(prefix)) names.insert(split->name);
  }
  return names;
}

}  // namespace cairn
