#include "cli/step_lists.hpp"

#include "base/text.hpp"
#include "cli/print.hpp"
#include "store/contents/format.hpp"
#include "store/directory/catalog.hpp"
#include "store/location.hpp"

namespace cairn::cli {
namespace {

template <class Function>
void for_each_list(const Address& directory, const std::string& only, Function function) {
  auto* const lists = step_list_of(*directory.files());
  if (!lists) return;
  for (const auto& naming : lists->names_in(directory.path())) {
    if (only.empty() || naming.name == only) function(*lists, location_of(directory, naming));
  }
}

}  // namespace

std::vector<Beside> beside_lists(const Address& directory, const std::string& only) {
  std::vector<Beside> found;
  for_each_list(directory, only, [&](StepList& list, const Location& place) {
    for (const auto step : list.steps_beside(place)) {
      const auto entry = look_at_step(place, step);
      found.push_back({commit::prefix_name(place.naming, step), entry.damage,
                       format_of(entry.format).as_argument(place.prefix(step)).filename()});
    }
  });
  return found;
}

void print_beside(const Address& directory, const std::vector<Beside>& found) {
  for (const auto& one : found) {
    const auto path = (directory / one.argument).string();
    const auto what = one.damage.empty()
                          ? cat("cairn convert ", path, ' ', path, " --overwrite makes it count")
                          : cat("it is damaged: ", one.damage);
    print_line(cat(one.prefix, " lies beside the list of checkpoints, and does not count: ", what));
  }
}

std::vector<std::string> damaged_lists(const Address& directory, const std::string& only) {
  std::vector<std::string> paths;
  for_each_list(directory, only, [&](StepList& list, const Location& place) {
    const auto path = list.damaged_list(place);
    if (!path.empty()) paths.push_back(path.string());
  });
  return paths;
}

}  // namespace cairn::cli
