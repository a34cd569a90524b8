#include "store/contents/find_checkpoints.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "store/commit/names.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/location.hpp"

namespace cairn {

namespace {

bool is_there(const Address& prefix) {
  return std::ranges::any_of(all_formats(), [&](const auto* format) {
    return try_recognise(*format, prefix.at(format->main_file(prefix.path()))).value_or(true);
  });
}

// What counts; nothing: there is no list, or a damaged one, and all counts. Adds to `prefixes` what
// was put after they were listed: a job may save and remove between the looks.
std::optional<std::set<std::string>> find_counted(const Address& directory, StepList& list,
                                                  const commit::Naming& naming,
                                                  std::set<std::string>& prefixes) {
  const auto place = location_of(directory, naming);
  auto steps = list.steps_that_count(place);
  for (int looks = 64;; --looks) {
    if (!steps) return std::nullopt;
    std::set<std::string> counted;
    bool all_there = true;
    for (const auto step : *steps) {
      const auto prefix = commit::prefix_name(naming, step);
      if (!prefixes.contains(prefix) && is_there(directory / prefix)) prefixes.insert(prefix);
      all_there &= prefixes.contains(prefix);
      counted.insert(prefix);
    }
    if (all_there || looks == 0) return counted;
    if (auto now = list.steps_that_count(place); now != steps) {
      steps = std::move(now);
    } else {
      return counted;
    }
  }
}

// Leaves out what the directory's lists do not name: saves that were not committed.
void drop_uncounted(const Address& directory, std::set<std::string>& prefixes) {
  auto* const lists = step_list_of(*directory.files());
  if (!lists) return;
  for (const auto& naming : lists->names_in(directory.path())) {
    const auto counted = find_counted(directory, *lists, naming, prefixes);
    if (!counted) continue;
    std::erase_if(prefixes, [&](const auto& prefix) {
      const auto split = commit::split_step(prefix);
      const bool is_its =
          naming.numbered ? split && split->name == naming.name : prefix == naming.name;
      return is_its && !counted->contains(prefix);
    });
  }
}

// Adds the prefixes of a listing. False if a file that has the name of a main file is none.
bool add_main_files(const Address& directory, const std::vector<std::string>& listing,
                    std::set<std::string>& found) {
  bool all = true;
  for (const auto& entry : listing) {
    const auto file = commit::split_main_file(entry);
    if (!file) continue;
    const auto path = directory / entry;
    // A link whose target is missing counts: the target was a checkpoint.
    const bool is_one = try_recognise(format_of(file->kind), path).value_or(true) ||
                        (!path.exists() && path.files()->is_link(path.path()));
    if (is_one) found.insert(file->prefix.string());
    all &= is_one;
  }
  return all;
}

}  // namespace

std::vector<std::string> list_prefixes(const Address& directory) {
  std::set<std::string> found;  // a step may be there in both formats
  auto listing = directory.list();
  for (int looks = 64;; --looks) {
    found.clear();
    if (add_main_files(directory, listing, found) || looks == 0) break;
    // What is no checkpoint may have been one that a job has removed: then newer ones are there.
    if (std::exchange(listing, directory.list()) == listing) break;
  }
  for (const auto& lost : find_lost(*directory.files(), directory.path()))
    found.insert(lost.prefix.filename().string());
  drop_uncounted(directory, found);
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
